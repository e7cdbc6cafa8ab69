// CUDA C++ for g++: the keywords, built-in variables and device functions that kernels may use.
//
// Left out on purpose: __shared__ (LOCKSTEP_SHARED of device.cuh instead), __threadfence and
// volatile (acquire and release instead), __activemask, atomics on floats (their order is not
// fixed).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/emulation/kernel_interface.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

// --- Types
// ----------------------------------------------------------------------------------------
using uint3 = lockstep::emulation::Extent3;

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};

inline int2 make_int2(int x, int y) {
  return {x, y};
}
inline int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline double2 make_double2(double x, double y) {
  return {x, y};
}

// --- Built-in variables
// ---------------------------------------------------------------------------
inline const uint3& threadIdx = lockstep::emulation::running_coordinates.thread;
inline const uint3& blockIdx = lockstep::emulation::running_coordinates.block;
inline const uint3& blockDim = lockstep::emulation::running_coordinates.block_extent;
inline const uint3& gridDim = lockstep::emulation::running_coordinates.grid_extent;
inline constexpr int warpSize = 32;

// --- A block's threads together
// -------------------------------------------------------------------
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  barrier(BarrierKind::plain, false, {file, line});
}
inline int __syncthreads_count(int predicate, const char* file = __builtin_FILE(),
                               int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return barrier(BarrierKind::count, predicate != 0, {file, line});
}
inline int __syncthreads_and(int predicate, const char* file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return barrier(BarrierKind::all, predicate != 0, {file, line});
}
inline int __syncthreads_or(int predicate, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return barrier(BarrierKind::any, predicate != 0, {file, line});
}

inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  warp(WarpKind::sync, mask, 0, 0, warpSize, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return static_cast<unsigned>(
      warp(WarpKind::ballot, mask, predicate != 0, 0, warpSize, {file, line}));
}
inline int __any_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return static_cast<int>(warp(WarpKind::any, mask, predicate != 0, 0, warpSize, {file, line}));
}
inline int __all_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return static_cast<int>(warp(WarpKind::all, mask, predicate != 0, 0, warpSize, {file, line}));
}

namespace lockstep::emulation {
template <class T>
T shuffle(WarpKind kind, unsigned mask, T value, int selector, int width, Place place) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp(kind, mask, bits, selector, width, place);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace lockstep::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = warpSize,
              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return shuffle(WarpKind::shuffle, mask, value, lane, width, {file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return shuffle(WarpKind::shuffle_up, mask, value, static_cast<int>(delta), width, {file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return shuffle(WarpKind::shuffle_down, mask, value, static_cast<int>(delta), width, {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using namespace lockstep::emulation;
  return shuffle(WarpKind::shuffle_xor, mask, value, lane_mask, width, {file, line});
}

// --- Atomics; unordered, as CUDA's are
// -------------------------------------------------------------
template <class T>
T atomicAdd(T* address, T value) {
  static_assert(std::is_integral_v<T>,
                "floats added in an order that varies differ from run to run");
  return lockstep::emulation::fetch_apply(address,
                                          [=](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* address, T value) {
  return lockstep::emulation::fetch_apply(address, [=](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* address, T value) {
  return lockstep::emulation::fetch_apply(address, [=](T old) { return std::min(old, value); });
}
template <class T>
T atomicOr(T* address, T value) {
  return lockstep::emulation::fetch_apply(address, [=](T old) { return old | value; });
}
template <class T>
T atomicAnd(T* address, T value) {
  return lockstep::emulation::fetch_apply(address, [=](T old) { return old & value; });
}
template <class T>
T atomicExch(T* address, T value) {
  return lockstep::emulation::fetch_apply(address, [=](T) { return value; });
}
template <class T>
T atomicCAS(T* address, T expected, T value) {
  return lockstep::emulation::fetch_apply(address,
                                          [=](T old) { return old == expected ? value : old; });
}

// --- Mathematics
// -----------------------------------------------------------------------------------
inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
inline double rsqrt(double x) {
  return 1.0 / std::sqrt(x);
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((std::uint64_t{a} * b) >> 32);
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}

// --- Memory hints, time
// ------------------------------------------------------------------------------
template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}
inline void __nanosleep(unsigned nanoseconds, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  lockstep::emulation::sleep(nanoseconds, {file, line});
}
[[noreturn]] inline void __trap(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  lockstep::emulation::trap({file, line});
}
