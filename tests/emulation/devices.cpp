#include "tests/emulation/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

std::size_t kernel_stack_bytes() {
  // Sanitizers widen every frame.
  return under_address_sanitizer() || under_thread_sanitizer() ? 256 * 1024 : 64 * 1024;
}

constexpr std::size_t task_stack_bytes = 2 * 1024 * 1024;  // host code, which may be deep

std::string describe(const Stream& stream) {
  const Operation& next = stream.operations.front();
  const std::string waits = next.wait ? "an event" : next.work ? next.work->name : "a graph";
  return fmt::format("  stream {} of device {}: {} operations, the first is {}\n", stream.number,
                     stream.device, stream.operations.size(), waits);
}

}  // namespace

Devices::Devices(int count, const DeviceLimits& limits, BlockPolicy policy, Random& random,
                 MemoryMap& memory)
    : random_(random),
      memory_(memory),
      kernel_fibers_(kernel_stack_bytes()),
      task_fibers_(task_stack_bytes),
      blocks_(count, limits, policy, *this) {}

Devices::~Devices() {
  drop_everything();
}

// --- Host side
// ---------------------------------------------------------------------------------------

Stream& Devices::add_stream(int device, int priority) {
  streams_.push_back(std::make_unique<Stream>());
  Stream& stream = *streams_.back();
  stream.device = device;
  stream.priority = priority;
  stream.number = ++streams_made_;
  return stream;
}

void Devices::remove_stream(Stream& stream) {
  std::erase_if(streams_, [&](const auto& other) { return other.get() == &stream; });
}

void Devices::enqueue(Stream& stream, Operation operation) {
  if (operation.wait) {
    const Orders& orders = operation.wait->orders;
    stream.frontier.insert(stream.frontier.end(), orders.begin(), orders.end());
  } else if (operation.record) {
    operation.record->orders = stream.frontier;
  } else {
    auto host = std::make_shared<Order>();
    release(host.get());
    operation.follows = std::exchange(stream.frontier, {operation.order});
    operation.follows.push_back(std::move(host));
  }
  stream.operations.push_back(std::move(operation));
  ++stream.enqueued;
  streams_changed_ = true;
}

// --- Operations
// ----------------------------------------------------------------------------------------

bool Devices::can_progress() {
  if (failed()) return !dropped_;
  if (streams_changed_) start_operations();
  return blocks_.can_step();
}

void Devices::run(std::size_t steps) {
  for (std::size_t i = 0; i < steps && !failed() && can_progress(); ++i) {
    clock_->now();
    if (Execution* const finished = blocks_.step()) complete(*finished);
  }
  if (failed() && !dropped_) drop_everything();
}

// The streams in any order; an operation that starts at once and is done may let another one start.
void Devices::start_operations() {
  std::vector<Stream*> order;
  for (const auto& stream : streams_) order.push_back(stream.get());
  while (std::exchange(streams_changed_, false)) {
    random_.shuffle(order);
    for (Stream* const stream : order) {
      while (start_next(*stream)) {
      }
    }
  }
}

// Starts the first operation; true when it is done already.
bool Devices::start_next(Stream& stream) {
  if (stream.operations.empty() || stream.operations.front().started) return false;
  Operation& next = stream.operations.front();
  if (next.wait) {
    if (!next.wait->done) return false;
    pop_operation(stream);
    return true;
  }
  if (next.record) {
    next.record->done = true;
    next.record->time = clock_->now();
    pop_operation(stream);
    return true;
  }
  next.started = true;
  if (next.graph) {
    start_graph(stream, next);
  } else {
    start(stream, stream.race_contexts, next.work, next.follows, next.order, nullptr, 0);
  }
  return false;
}

void Devices::pop_operation(Stream& stream) {
  stream.operations.pop_front();
  ++stream.completed;
  streams_changed_ = true;
}

void Devices::start(Stream& stream, RaceContexts& race_contexts, std::shared_ptr<const Work> work,
                    Orders follows, std::shared_ptr<const Order> order,
                    std::shared_ptr<GraphRun> graph, std::size_t node) {
  const int priority =
      graph && graph->own_priorities ? graph->graph->nodes[node].priority : stream.priority;
  auto execution = std::make_unique<Execution>(Execution{.work = std::move(work),
                                                         .follows = std::move(follows),
                                                         .order = std::move(order),
                                                         .race_contexts = race_contexts,
                                                         .used_race_contexts = {},
                                                         .priority = priority});
  blocks_.add(*execution);
  running_.push_back({std::move(execution), &stream, std::move(graph), node});
}

void Devices::complete(Execution& execution) {
  const auto found = std::find_if(running_.begin(), running_.end(), [&](const Running& running) {
    return running.execution.get() == &execution;
  });
  const Running done = std::move(*found);
  running_.erase(found);
  execution.race_contexts.give_back(execution.used_race_contexts);
  check_memory(*execution.work);
  if (done.graph) {
    complete_node(*done.stream, done.graph, done.node);
  } else {
    pop_operation(*done.stream);
  }
}

void Devices::check_memory(const Work& work) {
  const std::string damage = memory_.damage();
  if (damage.empty()) return;
  report(Fault::out_of_bounds, fmt::format("found when {} on device {} had ended: written {}",
                                           work.name, work.device, damage));
}

// --- Graphs
// -----------------------------------------------------------------------------------------------

void Devices::start_graph(Stream& stream, Operation& operation) {
  auto run = std::make_shared<GraphRun>();
  run->graph = operation.graph;
  run->own_priorities = operation.own_priorities;
  const auto& nodes = run->graph->nodes;
  run->left = nodes.size();
  run->race_contexts.resize(nodes.size());
  std::vector<bool> is_followed(nodes.size());
  for (const Graph::Node& node : nodes) {
    run->orders.push_back(std::make_shared<Order>());
    run->missing.push_back(node.follows.size());
    for (const std::size_t before : node.follows) is_followed[before] = true;
  }
  // What comes after the graph follows all of its last nodes. Whoever was enqueued behind it knows
  // the graph's own order, so the last nodes release that one.
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_followed[i]) run->orders[i] = operation.order;
  }
  if (nodes.empty()) {
    pop_operation(stream);
    return;
  }
  const Orders follows = operation.follows;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].follows.empty()) start_node(stream, run, i, follows);
  }
}

void Devices::start_node(Stream& stream, const std::shared_ptr<GraphRun>& run, std::size_t node,
                         Orders follows) {
  RaceContexts& contexts = run->race_contexts[node];
  const auto& before = run->graph->nodes[node].follows;
  if (before.empty()) contexts.take_all(stream.race_contexts);
  for (const std::size_t other : before) contexts.take_all(run->race_contexts[other]);
  start(stream, contexts, run->graph->nodes[node].work, std::move(follows), run->orders[node], run,
        node);
}

void Devices::complete_node(Stream& stream, const std::shared_ptr<GraphRun>& run,
                            std::size_t node) {
  const auto& nodes = run->graph->nodes;
  for (std::size_t i = node + 1; i < nodes.size(); ++i) {
    const auto& follows = nodes[i].follows;
    run->missing[i] -= static_cast<std::size_t>(std::count(follows.begin(), follows.end(), node));
    if (run->missing[i] != 0 || std::find(follows.begin(), follows.end(), node) == follows.end()) {
      continue;
    }
    Orders orders;
    for (const std::size_t before : follows) orders.push_back(run->orders[before]);
    start_node(stream, run, i, std::move(orders));
  }
  if (--run->left != 0) return;
  for (RaceContexts& contexts : run->race_contexts) stream.race_contexts.take_all(contexts);
  pop_operation(stream);
}

// --- Faults
// -----------------------------------------------------------------------------------------------

FiberPool& Devices::fibers(const Work& work) {
  return work.kind == Work::Kind::kernel ? kernel_fibers_ : task_fibers_;
}

void Devices::before_block(const Work& work) {
  if (work.kind == Work::Kind::kernel) {
    memory_.open_for(work.device);
  } else {
    memory_.open_all();
  }
}

void Devices::report(Fault fault, const std::string& text) {
  if (failed()) return;
  report_ = {fault, text};
}

void Devices::report_deadlock(const std::string& text) {
  report(Fault::deadlock, "everyone waits, nobody with a deadline:\n" + text);
}

void Devices::drop_everything() {
  dropped_ = true;
  blocks_.drop_everything();
  for (const Running& running : running_) {
    running.execution->race_contexts.give_back(running.execution->used_race_contexts);
  }
  running_.clear();
  for (const auto& stream : streams_) {
    stream->completed = stream->enqueued;
    stream->operations.clear();
  }
}

std::string Devices::describe_waits() const {
  std::string text = blocks_.describe_waits();
  for (const auto& stream : streams_) {
    if (!stream->operations.empty() && !stream->operations.front().started) {
      text += describe(*stream);
    }
  }
  return text;
}

}  // namespace lockstep::emulation
