#include "framework/kernels/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace lockstep::kernels {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// Without fused multiply-add the range reductions lose a little, and the square in the exponent of
// the normal density is rounded.
#ifdef __FMA__
constexpr double slack = 1, density_bound = 2, tail_bound = 7;
#else
constexpr double slack = 2, density_bound = 90, tail_bound = 90;
#endif

// The largest error, in units in the last place of the exact value, over floats of every exponent
// that lie in [low, high].
template <class F, class Exact>
double worst_ulp(float low, float high, F f, Exact exact) {
  double worst = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 7919) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!(x >= low && x <= high)) continue;
    const double wanted = exact(static_cast<double>(x));
    const double ulp = std::ldexp(1.0, std::max(std::ilogb(wanted), -126) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(f(x)) - wanted) / ulp);
  }
  return worst;
}

float cdf(float x) {
  return normal_cdf(x, gauss(x));
}

// 1 / (1 + e^-2u) and 1 / (1 + e^2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
double exact_body(double x) {
  return 1 / (1 + std::exp(-std::sqrt(8 / M_PI) * (x + 0.044715 * x * x * x)));
}
double exact_tail(double x) {
  return exact_body(-x);
}

TEST(VectorMath, ErrorsAreWithinTheStatedBounds) {
  const auto exp = [](double x) { return std::exp(x); };
  EXPECT_LE(worst_ulp(
                -103.9f, 88.7f, [](float x) { return vector_exp(x); }, exp),
            1.1 * slack);
  const auto log = [](double x) { return std::log(x); };
  EXPECT_LE(worst_ulp(
                1e-45f, 3.4e38f, [](float x) { return vector_log(x); }, log),
            1 * slack);
  const auto tanh = [](double x) { return std::tanh(x); };
  EXPECT_LE(worst_ulp(
                -infinity, infinity, [](float x) { return vector_tanh(x); }, tanh),
            3 * slack);
  const auto density = [](double x) { return std::exp(-x * x / 2); };
  EXPECT_LE(worst_ulp(
                -13, 13, [](float x) { return gauss(x); }, density),
            density_bound);
  const auto distribution = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  EXPECT_LE(worst_ulp(-1, infinity, cdf, distribution), 4 * slack);
  EXPECT_LE(worst_ulp(-12, -1, cdf, distribution), tail_bound);
}

TEST(VectorMath, ErrorsOfTheDistributionByTanhAreWithinTheStatedBounds) {
  const auto body = [](float x) { return tanh_distribution(x).body; };
  const auto tail = [](float x) { return tanh_distribution(x).tail; };
  EXPECT_LE(worst_ulp(0, infinity, body, exact_body), 3);
  EXPECT_LE(worst_ulp(0, 1, tail, exact_tail), 3);
  EXPECT_LE(worst_ulp(1, 5, tail, exact_tail), 32);
  EXPECT_LE(worst_ulp(5, 10, tail, exact_tail), 160);
  EXPECT_EQ(tail(std::nextafter(10.0f, 11.0f)), 0);
}

TEST(VectorMath, EdgesOfTheRange) {
  EXPECT_EQ(vector_exp(0.0f), 1);
  EXPECT_EQ(vector_exp(89.0f), infinity);
  EXPECT_EQ(vector_exp(infinity), infinity);
  EXPECT_EQ(vector_exp(-104.5f), 0);
  EXPECT_EQ(vector_exp(-infinity), 0);
  EXPECT_TRUE(std::isnan(vector_exp(nan)));

  EXPECT_EQ(vector_log(1.0f), 0);
  EXPECT_EQ(vector_log(0.0f), -infinity);
  EXPECT_EQ(vector_log(-0.0f), -infinity);
  EXPECT_EQ(vector_log(infinity), infinity);
  EXPECT_TRUE(std::isnan(vector_log(-1.0f)));
  EXPECT_TRUE(std::isnan(vector_log(-infinity)));
  EXPECT_TRUE(std::isnan(vector_log(nan)));

  EXPECT_EQ(vector_tanh(infinity), 1);
  EXPECT_EQ(vector_tanh(-infinity), -1);
  EXPECT_TRUE(std::signbit(vector_tanh(-0.0f)));
  EXPECT_TRUE(std::isnan(vector_tanh(nan)));

  for (const float x : {infinity, -infinity}) {
    const auto [magnitude, slope, body, tail] = tanh_distribution(x);
    EXPECT_EQ(magnitude, 10);
    EXPECT_LT(slope, infinity);
    EXPECT_EQ(body, 1);
    EXPECT_EQ(tail, 0);
  }
  EXPECT_EQ(tanh_distribution(-0.0f).body, 0.5f);
  EXPECT_EQ(tanh_distribution(0.0f).tail, 0.5f);
  EXPECT_TRUE(std::isnan(tanh_distribution(nan).tail));

  EXPECT_EQ(cdf(0.0f), 0.5f);
  EXPECT_EQ(cdf(infinity), 1);
  EXPECT_EQ(cdf(-infinity), 0);
  EXPECT_TRUE(std::isnan(cdf(nan)));
}

// A vectorised loop and a single call must agree, or results would depend on where a row is cut.
TEST(VectorMath, VectorsAndSinglesAgree) {
  std::vector<float> x, e(1027), t(1027), c(1027), d(1027), l(1027);
  for (int i = 0; i < 1027; ++i) x.push_back(0.17f * static_cast<float>(i - 500));
  for (std::size_t i = 0; i < x.size(); ++i) e[i] = vector_exp(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) t[i] = vector_tanh(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) c[i] = cdf(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) d[i] = tanh_distribution(x[i]).tail;
  for (std::size_t i = 0; i < x.size(); ++i) l[i] = vector_log(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    volatile float alone = x[i];
    const float v = alone;
    EXPECT_EQ(e[i], vector_exp(v));
    EXPECT_EQ(t[i], vector_tanh(v));
    EXPECT_EQ(c[i], cdf(v));
    EXPECT_EQ(d[i], tanh_distribution(v).tail);
    if (v > 0) {
      EXPECT_EQ(l[i], vector_log(v));
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
