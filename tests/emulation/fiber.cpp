#include "tests/emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "tests/emulation/sanitizer.h"

// lockstep_switch_stack(save, load): pushes what a function must preserve, stores the stack pointer
// in *save, takes `load` as the new one and pops what was pushed there.
// lockstep_enter_fiber: where a fresh stack begins; calls the function kept in one preserved
// register with the argument kept in another.
#if defined(__x86_64__)
asm(R"(
.text
.globl lockstep_switch_stack
.hidden lockstep_switch_stack
.type lockstep_switch_stack,@function
lockstep_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lockstep_switch_stack,.-lockstep_switch_stack
.globl lockstep_enter_fiber
.hidden lockstep_enter_fiber
.type lockstep_enter_fiber,@function
lockstep_enter_fiber:
  xorl %ebp, %ebp
  movq %r12, %rdi
  callq *%r13
  ud2
.size lockstep_enter_fiber,.-lockstep_enter_fiber
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl lockstep_switch_stack
.hidden lockstep_switch_stack
.type lockstep_switch_stack,%function
lockstep_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size lockstep_switch_stack,.-lockstep_switch_stack
.globl lockstep_enter_fiber
.hidden lockstep_enter_fiber
.type lockstep_enter_fiber,%function
lockstep_enter_fiber:
  mov x29, xzr
  mov x0, x19
  blr x20
  brk #0
.size lockstep_enter_fiber,.-lockstep_enter_fiber
)");
#else
#error "the emulation knows x86-64 and aarch64"
#endif

extern "C" {
void lockstep_switch_stack(void** save, void* load);
void lockstep_enter_fiber();
}

namespace lockstep::emulation {
namespace {

// The thread that runs the devices, as seen from its fibers. There is one such thread.
struct Resumer {
  void* stack_pointer = nullptr;
  void* race_context = nullptr;
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
  Fiber* running = nullptr;
};
Resumer resumer;

// The registers that lockstep_switch_stack pops, lowest address first, then the return address.
void* fresh_stack_pointer(std::byte* top, void (*function)(Fiber*), Fiber* argument) {
  auto** const end = reinterpret_cast<void**>(top);
#if defined(__x86_64__)
  void** const frame = end - 9;  // a call from lockstep_enter_fiber finds the stack aligned
  frame[0] = nullptr;            // r15
  frame[1] = nullptr;            // r14
  frame[2] = reinterpret_cast<void*>(function);  // r13
  frame[3] = argument;                           // r12
  frame[4] = nullptr;                            // rbx
  frame[5] = nullptr;                            // rbp
  frame[6] = reinterpret_cast<void*>(&lockstep_enter_fiber);
#else
  void** const frame = end - 20;
  for (int i = 0; i < 20; ++i) frame[i] = nullptr;
  frame[0] = argument;                                         // x19
  frame[1] = reinterpret_cast<void*>(function);                // x20
  frame[11] = reinterpret_cast<void*>(&lockstep_enter_fiber);  // x30
#endif
  return frame;
}

}  // namespace

Fiber::Fiber(std::size_t stack_bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  stack_bytes_ = (stack_bytes + page - 1) / page * page;
  mapping_bytes_ = stack_bytes_ + page;
  void* const mapping = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  mprotect(mapping_, page, PROT_NONE);
  stack_ = mapping_ + page;
}

Fiber::~Fiber() {
  unpoison(stack_, stack_bytes_);
  munmap(mapping_, mapping_bytes_);
}

void Fiber::start(Function function, void* argument, void* race_context) {
  function_ = function;
  argument_ = argument;
  race_context_ = race_context;
  fake_stack_ = nullptr;
  unpoison(stack_, stack_bytes_);
  stack_pointer_ = fresh_stack_pointer(stack_ + stack_bytes_, &Fiber::enter, this);
}

void Fiber::resume() {
  Fiber* const outer = std::exchange(resumer.running, this);
  switch_in();
  resumer.running = outer;
}

void Fiber::suspend() {
  resumer.running->switch_out();
}

void Fiber::switch_in() {
  void* fake_stack = nullptr;
  if (under_thread_sanitizer()) {
    resumer.race_context = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(race_context_, 1);  // 1: the switch orders nothing
  }
  if (under_address_sanitizer()) {
    __sanitizer_start_switch_fiber(&fake_stack, stack_, stack_bytes_);
  }
  lockstep_switch_stack(&resumer.stack_pointer, stack_pointer_);
  if (under_address_sanitizer()) __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

void Fiber::switch_out() {
  if (under_thread_sanitizer()) __tsan_switch_to_fiber(resumer.race_context, 1);
  if (under_address_sanitizer()) {
    __sanitizer_start_switch_fiber(&fake_stack_, resumer.stack, resumer.stack_bytes);
  }
  lockstep_switch_stack(&stack_pointer_, resumer.stack_pointer);
  if (under_address_sanitizer()) {
    __sanitizer_finish_switch_fiber(fake_stack_, &resumer.stack, &resumer.stack_bytes);
  }
}

void Fiber::enter(Fiber* fiber) {
  if (under_address_sanitizer()) {
    __sanitizer_finish_switch_fiber(nullptr, &resumer.stack, &resumer.stack_bytes);
  }
  fiber->function_(fiber->argument_);
  suspend();
}

std::unique_ptr<Fiber> FiberPool::take() {
  if (free_.empty()) return std::make_unique<Fiber>(stack_bytes_);
  std::unique_ptr<Fiber> fiber = std::move(free_.back());
  free_.pop_back();
  return fiber;
}

// To ThreadSanitizer two threads that had the same stack one after the other race on it, unless it
// was unmapped between.
void FiberPool::give_back(std::unique_ptr<Fiber> fiber) {
  if (!under_thread_sanitizer()) free_.push_back(std::move(fiber));
}

}  // namespace lockstep::emulation
