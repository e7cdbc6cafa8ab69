// What kernels and their launches, compiled by g++ with whatever sanitizer the build has, call of
// the emulation, which is compiled without any. Everything here is called by device code, on a
// fiber.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lockstep::emulation {

// A place in the source, for reports.
struct Place {
  const char* file = "";
  int line = 0;
};

struct Extent3 {
  unsigned x, y, z;
};

// threadIdx, blockIdx, blockDim and gridDim of the running thread.
struct Coordinates {
  Extent3 thread, block, block_extent, grid_extent;
};
extern Coordinates running_coordinates;

// A launch: the kernel with its arguments, called once for each CUDA thread.
class KernelCall {
 public:
  virtual ~KernelCall() = default;
  virtual void run() const = 0;
};

// --- Shared memory
// --------------------------------------------------------------------------------
void* static_shared(const void* declaration, std::size_t bytes, std::size_t alignment,
                    const char* name);
void* dynamic_shared();

// --- A block's threads together
// -------------------------------------------------------------------
enum class BarrierKind : std::uint8_t { plain, count, all, any };
int barrier(BarrierKind kind, bool predicate, Place place);

enum class WarpKind : std::uint8_t {
  sync,
  ballot,
  any,
  all,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor
};
const char* name_of(WarpKind kind);
// `value` is what this lane gives, `selector` the lane, delta or mask of a shuffle. Returns what
// this lane gets.
std::uint64_t warp(WarpKind kind, std::uint32_t mask, std::uint64_t value, int selector, int width,
                   Place place);

// --- Memory with an order
// -------------------------------------------------------------------------- A point at which
// another thread may go first.
void may_switch();
void require_alignment(const void* address, std::size_t alignment);

template <class T>
std::atomic_ref<T> checked_ref(const T* address) {
  require_alignment(address, sizeof(T));
  return std::atomic_ref<T>(*const_cast<T*>(address));
}

template <class T>
T load_acquire(const T* address) {
  may_switch();
  return checked_ref(address).load(std::memory_order_acquire);
}
template <class T>
void store_release(T* address, T value) {
  may_switch();
  checked_ref(address).store(value, std::memory_order_release);
}
template <class T>
T load_relaxed(const T* address) {
  may_switch();
  return checked_ref(address).load(std::memory_order_relaxed);
}
template <class T>
void store_relaxed(T* address, T value) {
  may_switch();
  checked_ref(address).store(value, std::memory_order_relaxed);
}
template <class T>
T fetch_add_acquire_release(T* address, T value) {
  may_switch();
  return checked_ref(address).fetch_add(value, std::memory_order_acq_rel);
}
// The read-modify-writes of CUDA order nothing: new value = f(old value).
template <class T, class Function>
T fetch_apply(T* address, Function f) {
  may_switch();
  const std::atomic_ref<T> word = checked_ref(address);
  T before = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(before, f(before), std::memory_order_relaxed)) {
  }
  return before;
}

// --- Time and waiting
// -------------------------------------------------------------------------------
std::uint64_t global_timer();
void sleep(std::uint32_t nanoseconds, Place place);
// Until the `bytes` at `word` differ from those at `seen`, *abort_word is not 0 (nullptr: never) or
// the deadline has passed.
void park(const void* word, const void* seen, std::size_t bytes, const std::uint32_t* abort_word,
          std::uint64_t deadline, Place place);
// Ends the kernel with a report.
[[noreturn]] void trap(Place place);

}  // namespace lockstep::emulation
