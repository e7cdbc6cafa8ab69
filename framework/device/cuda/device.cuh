// What kernels are written in: ordinary CUDA C++ that both nvcc and g++ take.
//
// nvcc compiles a .cu file for GPUs. g++ compiles the same file for the emulated GPUs of
// tests/emulation, whose <cuda_runtime.h> stands in for the toolkit's. This is the only header that
// looks at which of the two is at work; whatever they cannot both take is here, under one name:
// shared memory, 16-byte accesses, loads and stores with a memory order, and waiting for another
// block, device or the host.
//
// Rules for kernels (tests/emulation/README.md has them with examples):
// - Shared memory is declared with LOCKSTEP_SHARED or taken from dynamic_shared(), never
// __shared__.
// - Memory order comes from load_acquire and store_release; there is no __threadfence and no
//   volatile, which a race detector cannot see through.
// - Waiting for a word in memory is spin_until, never a loop of one's own: it watches the abort
// word
//   and the deadline, and the emulation parks the thread there.
// - Host code launches with launch() of launch.h, never with <<<>>>.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "framework/device/cuda/launch.h"

// LOCKSTEP_SHARED(tile, float[32][33]); declares `tile` in the block's shared memory,
// uninitialised. The type may be any trivial type, also of template parameters.
#ifdef __CUDACC__
#define LOCKSTEP_SHARED(name, ...) __shared__ std::type_identity_t<__VA_ARGS__> name
#else
#define LOCKSTEP_SHARED(name, ...)                                                           \
  static const char name##_declaration = 0;                                                  \
  auto& name =                                                                               \
      *static_cast<std::type_identity_t<__VA_ARGS__>*>(::lockstep::emulation::static_shared( \
          &name##_declaration, sizeof(__VA_ARGS__), alignof(__VA_ARGS__), #name))
#endif

namespace lockstep::device {

inline constexpr int warp_size = 32;
inline constexpr unsigned full_warp = 0xffffffffu;

// The shared memory whose size the launch gave, aligned to 16 bytes, uninitialised.
template <class T>
__device__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ uint4 lockstep_dynamic_shared[];
  return reinterpret_cast<T*>(lockstep_dynamic_shared);
#else
  return static_cast<T*>(emulation::dynamic_shared());
#endif
}

// --- 16-byte accesses ---------------------------------------------------------------------------

// As many elements as one 16-byte load or store moves.
template <class T>
struct alignas(16) Vector16 {
  static_assert(16 % sizeof(T) == 0 && std::is_trivially_copyable_v<T>);
  static constexpr int size = static_cast<int>(16 / sizeof(T));
  T lane[16 / sizeof(T)];
};

// `address` must be aligned to 16 bytes.
template <class T>
__device__ Vector16<T> load16(const T* address) {
  Vector16<T> result;
#ifdef __CUDACC__
  const uint4 words = *reinterpret_cast<const uint4*>(address);
  __builtin_memcpy(&result, &words, 16);
#else
  emulation::require_alignment(address, 16);
  __builtin_memcpy(&result, __builtin_assume_aligned(address, 16), 16);
#endif
  return result;
}

template <class T>
__device__ void store16(T* address, const Vector16<T>& vector) {
#ifdef __CUDACC__
  uint4 words;
  __builtin_memcpy(&words, &vector, 16);
  *reinterpret_cast<uint4*>(address) = words;
#else
  emulation::require_alignment(address, 16);
  __builtin_memcpy(__builtin_assume_aligned(address, 16), &vector, 16);
#endif
}

// --- Loads and stores with a memory order, at system scope
// ---------------------------------------- For words that other blocks, other devices or the host
// write: T is of 4 or 8 bytes, naturally aligned, in global memory (that of a peer and pinned host
// memory included). What a thread wrote before store_release is seen by a thread whose load_acquire
// saw the stored value, and, after a
// __syncthreads on either side, by its whole block. On the host the counterpart is std::atomic_ref.

template <class T>
__device__ T load_acquire(const T* address) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 4) {
    std::uint32_t bits;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(bits) : "l"(address) : "memory");
    return __builtin_bit_cast(T, bits);
  } else {
    std::uint64_t bits;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(bits) : "l"(address) : "memory");
    return __builtin_bit_cast(T, bits);
  }
#else
  return emulation::load_acquire(address);
#endif
}

template <class T>
__device__ void store_release(T* address, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address),
                 "r"(__builtin_bit_cast(std::uint32_t, value))
                 : "memory");
  } else {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address),
                 "l"(__builtin_bit_cast(std::uint64_t, value))
                 : "memory");
  }
#else
  emulation::store_release(address, value);
#endif
}

// Without any order, but whole: for words that carry their own flag, and for the abort word.
template <class T>
__device__ T load_relaxed(const T* address) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 4) {
    std::uint32_t bits;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(bits) : "l"(address) : "memory");
    return __builtin_bit_cast(T, bits);
  } else {
    std::uint64_t bits;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(bits) : "l"(address) : "memory");
    return __builtin_bit_cast(T, bits);
  }
#else
  return emulation::load_relaxed(address);
#endif
}

template <class T>
__device__ void store_relaxed(T* address, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(address),
                 "r"(__builtin_bit_cast(std::uint32_t, value))
                 : "memory");
  } else {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(address),
                 "l"(__builtin_bit_cast(std::uint64_t, value))
                 : "memory");
  }
#else
  emulation::store_relaxed(address, value);
#endif
}

// Two 8-byte words in one 16-byte access; each word is whole, the pair need not be.
struct alignas(16) WordPair {
  std::uint64_t low, high;
};

__device__ inline WordPair load_relaxed_pair(const WordPair* address) {
  WordPair pair;
#ifdef __CUDACC__
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.low), "=l"(pair.high)
               : "l"(address)
               : "memory");
#else
  pair.low = emulation::load_relaxed(&address->low);
  pair.high = emulation::load_relaxed(&address->high);
#endif
  return pair;
}

__device__ inline void store_relaxed_pair(WordPair* address, WordPair pair) {
#ifdef __CUDACC__
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(pair.low),
               "l"(pair.high)
               : "memory");
#else
  emulation::store_relaxed(&address->low, pair.low);
  emulation::store_relaxed(&address->high, pair.high);
#endif
}

// Adds and returns the value before, ordered both ways among the blocks of this device: the block
// that draws the last number sees what all others wrote before they drew theirs.
__device__ inline std::uint32_t fetch_add_acquire_release(std::uint32_t* address,
                                                          std::uint32_t value) {
#ifdef __CUDACC__
  std::uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(address), "r"(value)
               : "memory");
  return before;
#else
  return emulation::fetch_add_acquire_release(address, value);
#endif
}

// --- Waiting
// --------------------------------------------------------------------------------------

// Nanoseconds that all devices of a host count alike, in steps of up to a microsecond.
__device__ inline std::uint64_t global_timer() {
#ifdef __CUDACC__
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return emulation::global_timer();
#endif
}

// When a wait ends without what it waits for.
struct SpinLimit {
  const std::uint32_t* abort_word = nullptr;   // ends the wait when not 0; nullptr for none
  std::uint64_t deadline = ~std::uint64_t{0};  // on the global timer
};

enum class SpinEnd { ready, aborted, timed_out };

// Waits until `ready(value of the word)`, loading with acquire; T as for load_acquire. One thread
// of a block waits and a __syncthreads tells the others. A word that is ready is taken even when
// the limit has passed too. `at` is for the emulation's reports.
template <class T, class Ready>
__device__ SpinEnd spin_until(const T* word, Ready ready, const SpinLimit& limit,
                              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
#ifdef __CUDACC__
  // The word is local and polled hard; the abort word is across the bus and looked at rarely.
  constexpr std::uint32_t polls_between_looks = 256;
  for (std::uint32_t poll = 1; !ready(load_acquire(word)); ++poll) {
    if (poll % polls_between_looks != 0) continue;
    const bool aborted = limit.abort_word != nullptr && load_relaxed(limit.abort_word) != 0;
    if (!aborted && global_timer() < limit.deadline) continue;
    if (ready(load_acquire(word))) return SpinEnd::ready;
    return aborted ? SpinEnd::aborted : SpinEnd::timed_out;
  }
  return SpinEnd::ready;
#else
  while (true) {
    const T value = load_acquire(word);
    if (ready(value)) return SpinEnd::ready;
    const bool aborted = limit.abort_word != nullptr && load_relaxed(limit.abort_word) != 0;
    if (aborted || global_timer() >= limit.deadline) {
      if (ready(load_acquire(word))) return SpinEnd::ready;
      return aborted ? SpinEnd::aborted : SpinEnd::timed_out;
    }
    emulation::park(word, &value, sizeof(T), limit.abort_word, limit.deadline, {file, line});
  }
#endif
}

}  // namespace lockstep::device
