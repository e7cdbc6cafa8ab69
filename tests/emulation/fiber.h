// Fiber: a stack of its own on which one function at a time runs, can be left in the middle and
// resumed later. Switching is a dozen instructions; ucontext would make two system calls.
//
// A fiber is resumed by one thread only, the one that runs the emulated devices.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::emulation {

class Fiber {
 public:
  using Function = void (*)(void* argument);

  explicit Fiber(std::size_t stack_bytes);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Lays `function(argument)` ready. What ran before is dropped where it stands: its destructors do
  // not run. `race_context` is the fiber as ThreadSanitizer knows it; nullptr without.
  void start(Function function, void* argument, void* race_context);
  // Runs until suspend() or the function's end.
  void resume();
  // Within a fiber: back to who resumed it.
  static void suspend();

 private:
  static void enter(Fiber* fiber);
  void switch_in();
  void switch_out();

  std::byte* mapping_;  // a guard page, then the stack
  std::size_t mapping_bytes_;
  std::byte* stack_;
  std::size_t stack_bytes_;
  void* stack_pointer_ = nullptr;

  Function function_ = nullptr;
  void* argument_ = nullptr;
  void* race_context_ = nullptr;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
};

// Stacks for reuse.
class FiberPool {
 public:
  explicit FiberPool(std::size_t stack_bytes) : stack_bytes_(stack_bytes) {}
  std::unique_ptr<Fiber> take();
  void give_back(std::unique_ptr<Fiber> fiber);

 private:
  std::size_t stack_bytes_;
  std::vector<std::unique_ptr<Fiber>> free_;
};

}  // namespace lockstep::emulation
