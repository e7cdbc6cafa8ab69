// The few vector operations that gemm_tile.h needs, for the instruction set that the including file
// is compiled for. Everything lives in an unnamed namespace: the linker must not merge functions
// that were compiled for different processors.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lockstep::kernels {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t vector_bytes = 64;
constexpr bool rounds_once = true;
#elif defined(__AVX2__) && defined(__FMA__)
constexpr std::size_t vector_bytes = 32;
constexpr bool rounds_once = true;
#else
constexpr std::size_t vector_bytes = 16;
constexpr bool rounds_once = false;
#endif

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

// Elements of a vector.
template <class T>
constexpr std::int64_t lanes = static_cast<std::int64_t>(vector_bytes / sizeof(T));

template <class T>
inline Vector<T> load(const T* from) {
  Vector<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class T>
inline void store(T* to, Vector<T> v) {
  std::memcpy(to, &v, sizeof v);
}

// Only the first `count` elements; the others are 0.
template <class T>
inline Vector<T> load_first(const T* from, std::int64_t count) {
  if (count >= lanes<T>) return load(from);
  Vector<T> v{};
  for (std::int64_t i = 0; i < count; ++i) v[i] = from[i];
  return v;
}

template <class T>
inline void store_first(T* to, Vector<T> v, std::int64_t count) {
  if (count >= lanes<T>) return store(to, v);
  for (std::int64_t i = 0; i < count; ++i) to[i] = v[i];
}

// a * b + c, rounded once where the processor can.
template <class T>
inline Vector<T> multiply_add(Vector<T> a, Vector<T> b, Vector<T> c) {
  return a * b + c;
}
#if defined(__AVX512F__)
template <>
inline Vector<float> multiply_add<float>(Vector<float> a, Vector<float> b, Vector<float> c) {
  return _mm512_fmadd_ps(a, b, c);
}
template <>
inline Vector<double> multiply_add<double>(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm512_fmadd_pd(a, b, c);
}
#elif defined(__AVX2__) && defined(__FMA__)
template <>
inline Vector<float> multiply_add<float>(Vector<float> a, Vector<float> b, Vector<float> c) {
  return _mm256_fmadd_ps(a, b, c);
}
template <>
inline Vector<double> multiply_add<double>(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
#endif

template <class T, std::int64_t distance, std::size_t... lane>
inline void exchange(Vector<T>& a, Vector<T>& b, std::index_sequence<lane...>) {
  constexpr auto width = sizeof...(lane);
  constexpr auto h = static_cast<std::size_t>(distance);
  const Vector<T> low = __builtin_shufflevector(a, b, (lane & h ? width + lane - h : lane)...);
  b = __builtin_shufflevector(a, b, (lane & h ? width + lane : lane + h)...);
  a = low;
}

// Transposes a square of vectors in place, by exchanging ever larger blocks.
template <class T, std::int64_t distance = 1>
inline void transpose(Vector<T> (&v)[lanes<T>]) {
  if constexpr (distance < lanes<T>) {
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < lanes<T>; ++i) {
      if ((i & distance) == 0) {
        exchange<T, distance>(v[i], v[i + distance],
                              std::make_index_sequence<static_cast<std::size_t>(lanes<T>)>{});
      }
    }
    transpose<T, 2 * distance>(v);
  }
}

}  // namespace
}  // namespace lockstep::kernels
