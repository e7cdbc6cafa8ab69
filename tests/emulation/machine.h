// The emulated machine: devices, memory, seed, time, and what was found wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/devices.h"
#include "tests/emulation/memory_map.h"
#include "tests/emulation/random.h"
#include "tests/emulation/report.h"
#include "tests/emulation/scheduler.h"
#include "tests/emulation/work.h"

namespace lockstep::emulation {

struct MachineOptions {
  int devices = 8;
  // One seed is one interleaving. It also chooses the policies below where they are not given.
  std::uint64_t seed = 1;
  std::optional<StreamPolicy> streams = std::nullopt;
  std::optional<BlockPolicy> blocks = std::nullopt;
  std::size_t device_memory = std::size_t{256} << 20;
  DeviceLimits limits = {};
  bool driver = true;       // false: as on a machine without a driver
  bool peer_access = true;  // false: no device reaches another one's memory
  bool nvlink = true;       // false: PCIe joins the devices
  // The first launch of a kernel on a device loads its code, which may wait for the device, unless
  // the kernel was loaded before (cudaFuncGetAttributes does) or CUDA_MODULE_LOADING is EAGER.
  bool lazy_loading = true;
};

// The machine that the runtime API works on. One at a time; without one the first call makes one of
// the default options, which stays. Made, and destroyed when no other thread uses it any more, by
// the thread that runs the test.
class Machine {
 public:
  explicit Machine(const MachineOptions& options = {});
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // The machine there is; nullptr for none.
  static Machine* installed();
  static Machine& current();

  const MachineOptions& options() const { return options_; }
  // The first thing that was found wrong. take_report() says that it was expected: what it returns
  // is no failure of the test any more.
  const Report& report() const { return devices_.first_report(); }
  Report take_report();
  bool has_untaken_report() const { return report().fault != Fault::none && !taken_; }
  // The device stands still, as one that hangs, once the kernels on it have taken so many more
  // steps: nothing of it goes on or begins until it is released. One device at a time.
  void hold_device(int device, std::uint64_t steps = 0);
  void release_device();
  // What kept everyone waiting when time last jumped by 10 ms or more: who waited for a deadline.
  const std::string& last_stall() const { return scheduler_.last_stall(); }
  // What device memory an address belongs to, in words; empty for none.
  std::string describe_address(const void* pointer) const { return memory_.describe(pointer); }
  // Whether the calling thread is the one that runs kernels.
  static bool on_device_thread() { return Scheduler::on_device_thread(); }
  // The devices on which each host thread, by number, made calls that need a context there; without
  // those that free something, which has one.
  const std::map<int, std::set<int>>& contexts() const { return contexts_; }
  // Allocations, streams, events and graphs that were not freed; empty for none.
  std::string leaks() const;

  // --- For the runtime API
  // --------------------------------------------------------------------------
  Scheduler& scheduler() { return scheduler_; }
  Devices& devices() { return devices_; }
  MemoryMap& memory() { return memory_; }
  bool failed() const { return devices_.failed(); }
  // Enqueues, or adds to the graph where the stream is being captured.
  void enqueue(Stream& stream, std::shared_ptr<const Work> work);

  void note_context(int device) { contexts_[Scheduler::thread_number()].insert(device); }
  std::set<const Event*>& events() { return events_; }
  int& graphs() { return graphs_; }  // and executable ones
  std::set<std::pair<int, const void*>>& loaded_kernels() { return loaded_kernels_; }

 private:
  MachineOptions options_;
  Random random_;
  MemoryMap memory_;
  Devices devices_;
  Scheduler scheduler_;
  bool taken_ = false;
  std::map<int, std::set<int>> contexts_;
  std::set<const Event*> events_;
  int graphs_ = 0;
  std::set<std::pair<int, const void*>> loaded_kernels_;
};

}  // namespace lockstep::emulation
