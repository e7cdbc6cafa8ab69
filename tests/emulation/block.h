// Execution of one kernel launch: its blocks, their threads as fibers, barriers, warp operations
// and shared memory. What runs when is decided by who calls Block::step().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulation/fiber.h"
#include "tests/emulation/kernel_interface.h"
#include "tests/emulation/random.h"
#include "tests/emulation/report.h"
#include "tests/emulation/shared_memory.h"
#include "tests/emulation/work.h"

namespace lockstep::emulation {

class Block;

// What a block needs of the machine it runs on.
class BlockServices {
 public:
  virtual ~BlockServices() = default;
  virtual Random& random() = 0;
  virtual FiberPool& fibers(const Work& work) = 0;
  virtual void before_block(const Work& work) = 0;  // one of its threads is about to go
  virtual void before_look() = 0;                   // at what parked threads wait for
  virtual std::uint64_t now() = 0;                  // virtual nanoseconds
  // The first fault ends all kernels of the machine; later ones are its consequences.
  virtual void report(Fault fault, const std::string& text) = 0;
};

// Work of a stream that has started. Shared by its blocks.
struct Execution {
  std::shared_ptr<const Work> work;
  Orders follows;
  std::shared_ptr<const Order> order;
  RaceContexts& race_contexts;
  std::vector<void*> used_race_contexts;
  int priority = 0;
  std::uint64_t next_block = 0;  // the first one that is not resident yet
  std::uint64_t live_blocks = 0;

  void* take_race_context(Random& random);
};

enum class ThreadStatus : std::uint8_t { ready, at_barrier, at_warp, parked, finished };

struct CudaThread {
  Block* block = nullptr;
  Extent3 index{};
  unsigned number = 0;  // index.x counts fastest
  ThreadStatus status = ThreadStatus::ready;
  Place place;  // where it waits
  std::unique_ptr<Fiber> fiber;
  void* race_context = nullptr;
  std::uint64_t result = 0;  // of the barrier or warp operation

  // While parked: until *word differs from `seen`, the abort word is not 0 or the time has come.
  const void* word = nullptr;
  std::uint64_t seen = 0;
  std::size_t word_bytes = 0;
  const std::uint32_t* abort_word = nullptr;
  std::uint64_t deadline = 0;

  // While at a warp operation.
  std::uint64_t value = 0;
  int selector = 0;
  int width = 0;

  unsigned lane() const { return number % 32; }
};

// A resident block. Everything is called by the thread that runs the devices; the functions from
// barrier() on by the block's own fibers.
class Block {
 public:
  Block(BlockServices& services, Execution& execution, Extent3 index);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  Execution& execution() const { return execution_; }
  bool finished() const { return finished_ == threads_.size(); }
  bool can_step() const { return !ready_.empty(); }
  // Runs one ready thread up to the next point where it waits or may be switched.
  void step();
  // Makes those parked threads ready whose wait is over.
  void poll_parked();
  // The earliest deadline of a parked thread; the largest number where there is none.
  std::uint64_t next_deadline() const;
  // One line for each place where threads wait.
  std::string describe_waits() const;

  static CudaThread& running();
  void* static_shared(const void* declaration, std::size_t bytes, std::size_t alignment,
                      const char* name);
  void* dynamic_shared() { return shared_.dynamic(); }
  int barrier(BarrierKind kind, bool predicate, Place place);
  std::uint64_t warp(WarpKind kind, std::uint32_t mask, std::uint64_t value, int selector,
                     int width, Place place);
  void may_switch();
  void park(CudaThread& thread, Place place);
  // Reports and never returns.
  [[noreturn]] void fail(Fault fault, const std::string& what, Place place);

 private:
  // Lanes that take part in one warp operation.
  struct WarpGroup {
    unsigned warp = 0;
    WarpKind kind = WarpKind::sync;
    std::uint32_t mask = 0;
    std::uint32_t arrived = 0;
    Place place;
  };

  static void run_thread(void* thread);
  void make_ready(CudaThread& thread);
  void finish(CudaThread& thread);
  void release_barrier();
  std::uint32_t lanes_of(unsigned warp) const;
  CudaThread& lane_of(const WarpGroup& group, unsigned lane) {
    return threads_[group.warp * 32 + lane];
  }
  WarpGroup& join_group(CudaThread& thread, WarpKind kind, std::uint32_t mask, Place place);
  void complete_if_all_arrived(unsigned warp);
  void complete(WarpGroup& group);
  std::uint64_t shuffle_source(const WarpGroup& group, const CudaThread& thread);
  void fail_if_awaited_by_warp(const CudaThread& thread, const std::string& what, Place place);
  std::string name_of_thread(const CudaThread& thread) const;

  BlockServices& services_;
  Execution& execution_;
  const Work& work_;
  Extent3 index_;
  std::vector<CudaThread> threads_;
  std::vector<CudaThread*> ready_;
  std::vector<CudaThread*> parked_;
  std::size_t finished_ = 0;
  SharedMemory shared_;

  std::size_t at_barrier_ = 0;
  BarrierKind barrier_kind_ = BarrierKind::plain;
  Place barrier_place_;
  int barrier_count_ = 0;
  unsigned barrier_phase_ = 0;
  char barrier_order_[2] = {};  // addresses for the race detector, used in turn
  std::vector<WarpGroup> groups_;
  std::vector<char> warp_order_;
};

}  // namespace lockstep::emulation
