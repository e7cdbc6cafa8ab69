// exp, log, tanh and the normal distribution function for float as straight-line code that the
// compiler vectorises, and whose bits do not depend on whether it did. For double they are the
// standard library's: float64 serves gradient checks, where speed matters less than the last bit.
// Stated errors hold with fused multiply-add; without it the normal density and its tail lose up to
// 90 ulp far out.
//
// Polynomials are minimax fits made for this file (Remez' algorithm in quadruple precision); the
// range reductions are the classical ones of Cody and Waite.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace lockstep::kernels {

// a * b + c, rounded once where that is one instruction; elsewhere std::fma would be a slow call.
template <class T>
inline T fused(T a, T b, T c) {
#ifdef __FMA__
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// e^x = 2^exponent * (1 + expm1), |expm1| < 0.42, for |x| < 2^21.
struct ReducedExp {
  std::int32_t exponent;
  float expm1;
};
inline ReducedExp reduce_exp(float x) {
  constexpr float round_to_integer = 0x1.8p23f;  // its last bit is worth 1
  const float shifted = fused(x, 1.44269504f, round_to_integer);
  const float n = shifted - round_to_integer;
  const float r = fused(n, -1.42860677e-6f, fused(n, -0.693145752f, x));  // x - n * log(2)
  float p = 0.0013951719f;
  p = fused(p, r, 0.0083695982f);
  p = fused(p, r, 0.0416661873f);
  p = fused(p, r, 0.166665129f);
  p = fused(p, r, 0.50000001f);
  return {std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(round_to_integer),
          fused(p * r, r, r)};
}

// 2^n for n in [-126, 127].
inline float power_of_two(std::int32_t n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
}

// Within 1 ulp, denormal results and infinities included.
inline float vector_exp(float x) {
  const float low = x < -105.0f ? -105.0f : x;  // NaN passes
  const float clamped = low > 89.5f ? 89.5f : low;
  const auto [exponent, expm1] = reduce_exp(clamped);
  // In two steps, since 2^exponent itself may be out of range.
  const std::int32_t half = exponent >> 1;
  return (1.0f + expm1) * power_of_two(half) * power_of_two(exponent - half);
}

// Within 2 ulp. With u = e^(2|x|) - 1 it is u / (u + 2), which keeps small results accurate.
inline float vector_tanh(float x) {
  const float twice = 2.0f * std::fabs(x);
  const auto [exponent, expm1] = reduce_exp(twice > 20.0f ? 20.0f : twice);
  const float scale = power_of_two(exponent);
  const float u = fused(scale, expm1, scale - 1.0f);
  return std::copysign(u / (u + 2.0f), x);
}

// Within 1 ulp. The arrangement of terms is that of FDLIBM's log.
inline float vector_log(float x) {
  const bool tiny = x < 0x1p-126f;
  const float normal = tiny ? x * 0x1p23f : x;
  // The exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)).
  // (Unsigned, since a negative x, whose result is replaced below, would overflow.)
  const auto bits = std::bit_cast<std::uint32_t>(normal);
  const auto sqrt_half = std::bit_cast<std::uint32_t>(0.707106769f);
  const std::int32_t exponent = static_cast<std::int32_t>(bits - sqrt_half) >> 23;
  const float mantissa = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23));
  const float n = static_cast<float>(tiny ? exponent - 23 : exponent);
  const float f = mantissa - 1.0f;
  const float s = f / (2.0f + f);
  const float z = s * s;
  const float rest = z * fused(fused(0.298826595f, z, 0.399771919f), z, 0.666667786f);
  const float half_square = 0.5f * f * f;
  const float value =
      fused(n, 0.693145752f, f - (half_square - fused(s, half_square + rest, n * 1.42860677e-6f)));
  const float at_edge = x == 0.0f ? -INFINITY : x;  // zero; infinity and NaN as they are
  const bool edge = x == 0.0f || !(x < INFINITY);
  return x < 0.0f ? NAN : edge ? at_edge : value;
}

// The normal density without its factor, e^(-x^2 / 2), within 2 ulp; 0 beyond 13, where it is less
// than 2^-121 and results would become denormal, which is slow and of no use.
inline float gauss(float x) {
  const float magnitude = std::fabs(x);
  const float u = magnitude > 13.0f ? 13.0f : magnitude;
  const float square = u * u;
  const float e = vector_exp(-0.5f * square);
  // The second term makes up for the rounding of the square.
  return magnitude > 13.0f ? 0.0f : fused(e, -0.5f * fused(u, u, -square), e);
}

// The distribution function of the standard normal from `density` = gauss(x); within 7 ulp, also in
// the lower tail. Near 0 it is 1/2 and an odd polynomial; beyond, the tail is the density times a
// ratio (Mills') that is a polynomial in 1 / (1 + |x| / 4).
inline float normal_cdf(float x, float density) {
  const float magnitude = std::fabs(x);
  const float z = x * x;
  float near = 9.26795925e-05f;
  near = fused(near, z, -0.00116585607f);
  near = fused(near, z, 0.00996458045f);
  near = fused(near, z, -0.0664888617f);
  near = fused(near, z, 0.398942212f);
  const float t = 1.0f / fused(0.25f, magnitude > 13.0f ? 13.0f : magnitude, 1.0f);
  float p = 0.0171771259f;
  p = fused(p, t, -0.0661188697f);
  p = fused(p, t, 0.0596922799f);
  p = fused(p, t, 0.0173859102f);
  p = fused(p, t, 0.0222120556f);
  p = fused(p, t, 0.0813680525f);
  p = fused(p, t, 0.073902475f);
  p = fused(p, t, 0.0950896451f);
  p = fused(p, t, 0.0995463397f);
  p = fused(p, t, 0.0997449903f);
  const float tail = density * (t * p);
  const float far = x > 0.0f ? 1.0f - tail : tail;
  return magnitude < 1.0f ? fused(x, near, 0.5f) : magnitude >= 1.0f ? far : x;  // the last: NaN
}

inline double vector_exp(double x) {
  return std::exp(x);
}
inline double vector_log(double x) {
  return std::log(x);
}
inline double vector_tanh(double x) {
  return std::tanh(x);
}
inline double gauss(double x) {
  return std::exp(-0.5 * x * x);
}
inline double normal_cdf(double x, double /*density*/) {
  return 0.5 * std::erfc(x * -0.70710678118654752440);
}

// What GELU's approximation by tanh is made of, for |x|. It puts (1 + tanh(u)) / 2 = 1 / (1 +
// e^-2u) with 2u = |x| (a + b x^2) in the place of the normal distribution function.
template <class T>
struct TanhDistribution {
  T magnitude;  // |x|, but no more than where the tail ends, so that nothing made of it overflows
  T slope;      // of 2u
  T body;       // 1 / (1 + e^-2u)
  T tail;       // 1 - body = 1 / (1 + e^2u), without the cancellation
};

// Within 3 ulp for |x| < 1. Further out the rounding of 2u counts in the tail, as 2u times that:
// 32 ulp at 5, 160 at 10. The tail ends there, and at 21 for double, where results would become
// denormal.
template <class T>
inline TanhDistribution<T> tanh_distribution(T x) {
  constexpr T end = sizeof(T) == sizeof(float) ? T(10) : T(21);
  constexpr T a = T(1.5957691216057307117);    // sqrt(8 / pi)
  constexpr T b = T(0.071354816272600248776);  // 0.044715 a
  const T distance = std::fabs(x);
  const T magnitude = distance > end ? end : distance;  // NaN passes
  const T square = magnitude * magnitude;
  const T decay = vector_exp(-magnitude * fused(b, square, a));
  const T body = T(1) / (T(1) + decay);
  return {magnitude, fused(3 * b, square, a), body, distance > end ? T(0) : decay * body};
}

}  // namespace lockstep::kernels
