#include "tests/emulation/machine.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/emulation/guard.h"
#include "tests/emulation/sanitizer.h"
#include "tests/emulation/virtual_clock.h"

namespace lockstep::emulation {
namespace {

Machine* the_machine = nullptr;

StreamPolicy stream_policy(const MachineOptions& options) {
  static constexpr std::array policies{StreamPolicy::deferred, StreamPolicy::random,
                                       StreamPolicy::eager};
  return options.streams.value_or(policies[options.seed % policies.size()]);
}

BlockPolicy block_policy(const MachineOptions& options) {
  static constexpr std::array policies{BlockPolicy::any, BlockPolicy::priorities};
  return options.blocks.value_or(policies[options.seed / 3 % policies.size()]);
}

}  // namespace

Machine* Machine::installed() {
  return the_machine;
}

Machine& Machine::current() {
  if (the_machine == nullptr) {
    static Machine fallback;
    the_machine = &fallback;
  }
  return *the_machine;
}

Machine::Machine(const MachineOptions& options)
    : options_(options),
      random_(options.seed),
      memory_(options.devices, options.device_memory),
      devices_(options.devices, options.limits, block_policy(options), random_, memory_),
      scheduler_(random_, stream_policy(options), devices_) {
  const Inside inside;
  if (the_machine != nullptr) {
    std::fprintf(stderr, "emulation: a second machine while there is one\n");
    std::abort();
  }
  devices_.set_clock(scheduler_);
  VirtualClock::begin();
  install_memory_guard();
  the_machine = this;
  // Takes part from here on, so that threads it starts do.
  scheduler_.enter();
  scheduler_.leave();
}

Machine::~Machine() {
  const Inside inside;
  scheduler_.enter();
  the_machine = nullptr;
  VirtualClock::end(scheduler_.last_time());
}

Report Machine::take_report() {
  taken_ = true;
  return report();
}

void Machine::hold_device(int device, std::uint64_t steps) {
  const Inside inside;
  devices_.hold_device(device, steps);
}

void Machine::release_device() {
  const Inside inside;
  devices_.release_device();
}

std::string Machine::leaks() const {
  std::string text;
  const auto add = [&](std::size_t count, const char* what) {
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(memory_.allocations(), "allocations");
  add(devices_.streams().size(), "streams");
  add(events_.size(), "events");
  add(static_cast<std::size_t>(graphs_), "graphs");
  return text;
}

void Machine::enqueue(Stream& stream, std::shared_ptr<const Work> work) {
  if (!stream.capture) {
    devices_.enqueue(stream, {.work = std::move(work)});
    return;
  }
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back(
      {std::move(work), std::exchange(stream.captured, {nodes.size()}), stream.priority});
}

}  // namespace lockstep::emulation
