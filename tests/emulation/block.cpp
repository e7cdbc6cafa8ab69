#include "tests/emulation/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

constexpr unsigned warp_size = 32;
// How often a thread gives way where it may: often enough that orders differ between seeds, rarely
// enough that a block's threads stay together in the cache.
constexpr std::size_t switch_odds = 4;

// Unwinds a thread that has failed, so that what it held is freed.
struct Failed {};

CudaThread* running_thread = nullptr;

std::uint64_t load_bits(const void* word, std::size_t bytes) {
  // The machine's own look at memory: not ordered, not seen by the race detector.
  if (bytes == 4) return __atomic_load_n(static_cast<const std::uint32_t*>(word), __ATOMIC_RELAXED);
  return __atomic_load_n(static_cast<const std::uint64_t*>(word), __ATOMIC_RELAXED);
}

std::string to_string(Place place) {
  return fmt::format("{}:{}", place.file, place.line);
}

std::string to_string(Extent3 e) {
  return fmt::format("({},{},{})", e.x, e.y, e.z);
}

bool same(Place a, Place b) {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

Extent3 unflatten(unsigned number, Extent3 extent) {
  return {number % extent.x, number / extent.x % extent.y, number / extent.x / extent.y};
}

}  // namespace

Coordinates running_coordinates;

void* Execution::take_race_context(Random& random) {
  if (!under_thread_sanitizer()) return nullptr;
  if (void* const context = race_contexts.take()) return context;
  if (used_race_contexts.empty()) return RaceContexts::make();
  std::swap(used_race_contexts[random.below(used_race_contexts.size())], used_race_contexts.back());
  void* const context = used_race_contexts.back();
  used_race_contexts.pop_back();
  return context;
}

CudaThread& Block::running() {
  return *running_thread;
}

Block::Block(BlockServices& services, Execution& execution, Extent3 index)
    : services_(services),
      execution_(execution),
      work_(*execution.work),
      index_(index),
      threads_(work_.threads()),
      shared_(work_.dynamic_shared_bytes, work_.shared_limit),
      warp_order_(2 * ((threads_.size() + warp_size - 1) / warp_size)) {
  ready_.reserve(threads_.size());
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i].block = this;
    threads_[i].number = i;
    threads_[i].index = unflatten(i, work_.block_extent);
    ready_.push_back(&threads_[i]);
  }
  services_.random().shuffle(ready_);
}

// Threads that have not finished are dropped where they stand.
Block::~Block() {
  for (CudaThread& thread : threads_) {
    if (thread.fiber) services_.fibers(work_).give_back(std::move(thread.fiber));
    if (thread.race_context != nullptr) RaceContexts::destroy_dropped(thread.race_context);
  }
}

void Block::step() {
  CudaThread& thread = *ready_.back();
  ready_.pop_back();
  if (!thread.fiber) {
    thread.fiber = services_.fibers(work_).take();
    thread.race_context = execution_.take_race_context(services_.random());
    thread.fiber->start(&Block::run_thread, &thread, thread.race_context);
  }
  services_.before_block(work_);
  running_thread = &thread;
  running_coordinates = {thread.index, index_, work_.block_extent, work_.grid_extent};
  thread.fiber->resume();
  running_thread = nullptr;
  if (thread.status != ThreadStatus::finished) return;
  services_.fibers(work_).give_back(std::move(thread.fiber));
  if (thread.race_context != nullptr) {
    execution_.used_race_contexts.push_back(std::exchange(thread.race_context, nullptr));
  }
}

void Block::run_thread(void* argument) {
  auto& thread = *static_cast<CudaThread*>(argument);
  const Execution& execution = thread.block->execution_;
  for (const auto& order : execution.follows) acquire(order.get());
  bool failed = false;
  try {
    execution.work->call->run();
    release(execution.order.get());
    const Inside inside;
    thread.block->finish(thread);
  } catch (const Failed&) {
    failed = true;
  }
  if (!failed) return;
  const Inside inside;
  Fiber::suspend();  // for good: the machine steps no block any more
}

void Block::make_ready(CudaThread& thread) {
  thread.status = ThreadStatus::ready;
  ready_.push_back(&thread);
  std::swap(ready_.back(), ready_[services_.random().below(ready_.size())]);
}

void Block::may_switch() {
  if (!services_.random().once_in(switch_odds)) return;
  CudaThread& thread = running();
  make_ready(thread);
  Fiber::suspend();
}

void Block::finish(CudaThread& thread) {
  thread.status = ThreadStatus::finished;
  ++finished_;
  if (at_barrier_ != 0) {
    fail(Fault::divergent_barrier,
         fmt::format("thread {} has returned while {} of its block wait at the barrier at {}",
                     to_string(thread.index), at_barrier_, to_string(barrier_place_)),
         barrier_place_);
  }
  fail_if_awaited_by_warp(thread, "has returned", thread.place);
  if (finished()) {
    const std::string damaged = shared_.damaged();
    if (!damaged.empty()) {
      fail(Fault::shared_overflow, fmt::format("written past the bounds of {}", damaged), {});
    }
  }
}

// --- Barriers
// ---------------------------------------------------------------------------------------

int Block::barrier(BarrierKind kind, bool predicate, Place place) {
  CudaThread& thread = running();
  if (finished_ != 0) {
    fail(Fault::divergent_barrier,
         fmt::format("{} threads of the block have returned before the barrier", finished_), place);
  }
  if (at_barrier_ != 0 && (kind != barrier_kind_ || !same(place, barrier_place_))) {
    fail(Fault::divergent_barrier,
         fmt::format("{} threads of the block wait at the barrier at {}", at_barrier_,
                     to_string(barrier_place_)),
         place);
  }
  fail_if_awaited_by_warp(thread, "waits at a barrier", place);
  if (at_barrier_ == 0) {
    barrier_kind_ = kind;
    barrier_place_ = place;
    barrier_count_ = 0;
  }
  barrier_count_ += predicate ? 1 : 0;
  ++at_barrier_;
  const void* const order = &barrier_order_[barrier_phase_];
  release(order);
  thread.status = ThreadStatus::at_barrier;
  thread.place = place;
  if (at_barrier_ == threads_.size()) release_barrier();
  Fiber::suspend();
  acquire(order);
  return static_cast<int>(thread.result);
}

void Block::release_barrier() {
  const auto all = static_cast<int>(threads_.size());
  const int result = barrier_kind_ == BarrierKind::all   ? barrier_count_ == all
                     : barrier_kind_ == BarrierKind::any ? barrier_count_ != 0
                                                         : barrier_count_;
  at_barrier_ = 0;
  barrier_phase_ ^= 1u;
  for (CudaThread& thread : threads_) {
    thread.result = static_cast<std::uint64_t>(result);
    make_ready(thread);
  }
}

// --- Warp operations
// ----------------------------------------------------------------------------------

std::uint32_t Block::lanes_of(unsigned warp) const {
  const std::size_t count = std::min<std::size_t>(threads_.size() - warp * warp_size, warp_size);
  return count == warp_size ? ~std::uint32_t{0} : (std::uint32_t{1} << count) - 1;
}

void Block::fail_if_awaited_by_warp(const CudaThread& thread, const std::string& what,
                                    Place place) {
  for (const WarpGroup& group : groups_) {
    if (group.warp == thread.number / warp_size && (group.mask >> thread.lane() & 1u) != 0) {
      fail(Fault::warp_mismatch,
           fmt::format("lane {} {}, but lanes {:#010x} at {} name it in the mask {:#010x} of {}",
                       thread.lane(), what, group.arrived, to_string(group.place), group.mask,
                       name_of(group.kind)),
           place);
    }
  }
}

Block::WarpGroup& Block::join_group(CudaThread& thread, WarpKind kind, std::uint32_t mask,
                                    Place place) {
  const unsigned warp = thread.number / warp_size;
  if ((mask >> thread.lane() & 1u) == 0) {
    fail(Fault::warp_mismatch,
         fmt::format("lane {} is not in its own mask {:#010x}", thread.lane(), mask), place);
  }
  for (WarpGroup& group : groups_) {
    if (group.warp != warp || (group.mask & mask) == 0) continue;
    if (group.mask != mask || group.kind != kind || !same(group.place, place)) {
      fail(
          Fault::warp_mismatch,
          fmt::format("lane {} comes to {} with mask {:#010x}, but lanes {:#010x} wait at {} in {} "
                      "with mask {:#010x}",
                      thread.lane(), name_of(kind), mask, group.arrived, to_string(group.place),
                      name_of(group.kind), group.mask),
          place);
    }
    return group;
  }
  const std::size_t end = std::min<std::size_t>(threads_.size(), (warp + 1) * warp_size);
  for (std::size_t i = warp * warp_size; i < end; ++i) {
    const CudaThread& other = threads_[i];
    if ((mask >> other.lane() & 1u) != 0 && other.status == ThreadStatus::at_barrier) {
      fail(
          Fault::warp_mismatch,
          fmt::format("lane {} is named in the mask {:#010x} of {}, but waits at the barrier at {}",
                      other.lane(), mask, name_of(kind), to_string(other.place)),
          place);
    }
  }
  groups_.push_back({warp, kind, mask, 0, place});
  return groups_.back();
}

std::uint64_t Block::warp(WarpKind kind, std::uint32_t mask, std::uint64_t value, int selector,
                          int width, Place place) {
  CudaThread& thread = running();
  const unsigned warp_number = thread.number / warp_size;
  WarpGroup& group = join_group(thread, kind, mask, place);
  group.arrived |= 1u << thread.lane();
  thread.value = value;
  thread.selector = selector;
  thread.width = width;
  thread.status = ThreadStatus::at_warp;
  thread.place = place;
  // Only __syncwarp orders memory; the others exchange values and nothing else.
  const void* const order = &warp_order_[warp_number];
  if (kind == WarpKind::sync) release(order);
  complete_if_all_arrived(warp_number);
  Fiber::suspend();
  if (kind == WarpKind::sync) acquire(order);
  return thread.result;
}

// Lanes that the block is too small for need not come.
void Block::complete_if_all_arrived(unsigned warp) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].warp != warp) continue;
    if ((groups_[i].mask & lanes_of(warp) & ~groups_[i].arrived) != 0) continue;
    WarpGroup group = groups_[i];
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(i));
    complete(group);
    return;
  }
}

std::uint64_t Block::shuffle_source(const WarpGroup& group, const CudaThread& thread) {
  const auto lane = static_cast<int>(thread.lane());
  const int first = lane / thread.width * thread.width;
  int source = lane;
  switch (group.kind) {
    case WarpKind::shuffle:
      source = first + (thread.selector & (thread.width - 1));
      break;
    case WarpKind::shuffle_up:
      source = lane - thread.selector < first ? lane : lane - thread.selector;
      break;
    case WarpKind::shuffle_down:
      source = lane + thread.selector >= first + thread.width ? lane : lane + thread.selector;
      break;
    default:
      source = lane ^ thread.selector;
      if (source >= first + thread.width) source = lane;
      break;
  }
  if ((group.arrived >> source & 1u) == 0) {
    fail(Fault::warp_mismatch,
         fmt::format("lane {} reads lane {}, which takes no part in {}", lane, source,
                     name_of(group.kind)),
         group.place);
  }
  return lane_of(group, static_cast<unsigned>(source)).value;
}

void Block::complete(WarpGroup& group) {
  std::uint64_t ballot = 0;
  std::vector<CudaThread*> lanes;
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if ((group.arrived >> lane & 1u) == 0) continue;
    lanes.push_back(&lane_of(group, lane));
    if (lanes.back()->value != 0) ballot |= std::uint64_t{1} << lane;
  }
  for (CudaThread* const thread : lanes) {
    switch (group.kind) {
      case WarpKind::sync:
        thread->result = 0;
        break;
      case WarpKind::ballot:
        thread->result = ballot;
        break;
      case WarpKind::any:
        thread->result = ballot != 0;
        break;
      case WarpKind::all:
        thread->result = ballot == group.arrived;
        break;
      default:
        thread->result = shuffle_source(group, *thread);
        break;
    }
  }
  for (CudaThread* const thread : lanes) make_ready(*thread);
}

// --- Shared memory, waiting, faults
// --------------------------------------------------------------------

void* Block::static_shared(const void* declaration, std::size_t bytes, std::size_t alignment,
                           const char* name) {
  void* const memory = shared_.declared(declaration, bytes, alignment, name);
  if (memory == nullptr) {
    fail(Fault::shared_overflow,
         fmt::format("{} ({} bytes) does not fit the block's {} bytes of shared memory", name,
                     bytes, work_.shared_limit),
         {});
  }
  return memory;
}

void Block::park(CudaThread& thread, Place place) {
  thread.status = ThreadStatus::parked;
  thread.place = place;
  parked_.push_back(&thread);
  Fiber::suspend();
}

void Block::poll_parked() {
  const std::uint64_t now = services_.now();
  const auto is_over = [&](CudaThread* thread) {
    return (thread->word != nullptr &&
            load_bits(thread->word, thread->word_bytes) != thread->seen) ||
           (thread->abort_word != nullptr && load_bits(thread->abort_word, 4) != 0) ||
           now >= thread->deadline;
  };
  const auto over = std::stable_partition(parked_.begin(), parked_.end(),
                                          [&](CudaThread* thread) { return !is_over(thread); });
  const std::vector<CudaThread*> woken(over, parked_.end());
  parked_.erase(over, parked_.end());
  for (CudaThread* const thread : woken) make_ready(*thread);
}

std::uint64_t Block::next_deadline() const {
  std::uint64_t earliest = ~std::uint64_t{0};
  for (const CudaThread* const thread : parked_) earliest = std::min(earliest, thread->deadline);
  return earliest;
}

std::string Block::name_of_thread(const CudaThread& thread) const {
  return fmt::format("block {} thread {}", to_string(index_), to_string(thread.index));
}

std::string Block::describe_waits() const {
  struct Group {
    std::size_t count = 0;
    const CudaThread* first = nullptr;
  };
  std::map<std::pair<ThreadStatus, std::string>, Group> groups;
  for (const CudaThread& thread : threads_) {
    if (thread.status == ThreadStatus::finished) continue;
    Group& group = groups[{thread.status, to_string(thread.place)}];
    ++group.count;
    if (group.first == nullptr) group.first = &thread;
  }
  static constexpr const char* doing[] = {"ready since", "at the barrier at",
                                          "in a warp operation at", "waiting at", "finished"};
  std::string text;
  for (const auto& [key, group] : groups) {
    text += fmt::format("  {} on device {}, {}{}: {} {}\n", work_.name, work_.device,
                        name_of_thread(*group.first),
                        group.count > 1 ? fmt::format(" and {} more", group.count - 1) : "",
                        doing[static_cast<std::size_t>(key.first)], key.second);
  }
  return text;
}

void Block::fail(Fault fault, const std::string& what, Place place) {
  const CudaThread& thread = running();
  services_.report(fault, fmt::format("{} in {} on device {}, {}{}: {}", emulation::name_of(fault),
                                      work_.name, work_.device, name_of_thread(thread),
                                      place.line == 0 ? "" : " at " + to_string(place), what));
  throw Failed();
}

}  // namespace lockstep::emulation
