// Which blocks are resident on which multiprocessor, and which of them goes next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulation/block.h"

namespace lockstep::emulation {

// What one emulated multiprocessor holds at a time.
struct MultiprocessorLimits {
  unsigned threads = 1024;
  unsigned blocks = 16;
  std::size_t shared_bytes = 100 * 1024;
};

struct DeviceLimits {
  int multiprocessors = 4;
  MultiprocessorLimits each = {};
  unsigned threads_per_block = 1024;
  std::size_t shared_bytes_per_block = 48 * 1024;

  // How many such blocks one multiprocessor holds.
  unsigned blocks_per_multiprocessor(unsigned threads, std::size_t shared_bytes) const;
};

// How the next block is chosen. Both find bugs that the other misses.
enum class BlockPolicy : std::uint8_t {
  any,         // any of them; mostly the one that just went
  priorities,  // the one of highest priority, given by chance and at times taken away (Burckhardt
               // et al.: "A randomized scheduler with probabilistic guarantees of finding bugs",
               // 2010)
};

class BlockScheduler {
 public:
  BlockScheduler(int devices, const DeviceLimits& limits, BlockPolicy policy,
                 BlockServices& services);

  void add(Execution& execution);
  // Whether any block can go. Places blocks where there is room, and looks after those that wait.
  bool can_step();
  // One thread of one block goes, after can_step(). Returns the execution that this finished, if
  // any.
  Execution* step();
  std::uint64_t next_deadline() const;
  std::string describe_waits() const;
  void drop_everything();
  // The device stands still from when its kernels have taken so many more steps: nothing of it goes
  // on or begins until it is released. One device at a time.
  void hold(int device, std::uint64_t steps) { hold_ = Hold{device, steps}; }
  void release();

 private:
  struct Multiprocessor {
    unsigned threads = 0;
    unsigned blocks = 0;
    std::size_t shared_bytes = 0;
  };
  struct Hold {
    int device = 0;
    std::uint64_t steps = 0;
  };
  struct Resident {
    std::unique_ptr<Block> block;
    Multiprocessor* multiprocessor = nullptr;  // nullptr for copies and tasks, which need none
    std::uint64_t priority = 0;
  };

  bool is_held(int device) const { return hold_ && hold_->device == device && hold_->steps == 0; }
  void hold_blocks();
  void place_blocks();
  Multiprocessor* room_for(const Work& work);
  void place(Execution& execution, Multiprocessor* multiprocessor);
  void wake_waiting();
  std::size_t choose();
  void retire(std::size_t resident);

  DeviceLimits limits_;
  BlockPolicy policy_;
  BlockServices& services_;
  std::vector<std::vector<Multiprocessor>> multiprocessors_;  // by device
  std::vector<Execution*> unplaced_;                          // oldest first
  bool room_changed_ = false;
  std::vector<Resident> runnable_;
  std::vector<Resident> waiting_;
  std::optional<Hold> hold_;
  std::vector<Resident> held_;
  std::size_t current_ = 0;  // in runnable_
  unsigned steps_since_look_ = 0;
};

}  // namespace lockstep::emulation
