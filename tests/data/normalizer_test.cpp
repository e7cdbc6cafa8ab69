#include "data/normalizer.h"

#include <gtest/gtest.h>

#include <random>

#include "framework/base/error.h"

namespace lockstep::data {
namespace {

template <class Stored, class Result>
void expect_normalized(const Shape& shape, std::size_t channels) {
  DatasetInfo info;
  info.dtype = base::dtype_of<Stored>();
  info.feature_shape = shape;
  std::mt19937 random(static_cast<unsigned>(shape.count()));
  std::uniform_real_distribution<double> uniform(0.1, 2);
  info.normalization = {1.0 / 255, {}, {}};
  for (std::size_t i = 0; i < channels; ++i) {
    info.normalization.mean.push_back(uniform(random));
    info.normalization.std.push_back(uniform(random));
  }
  const auto count = static_cast<std::size_t>(shape.count());
  std::vector<Stored> row(count);
  for (Stored& value : row) value = static_cast<Stored>(random() % 256);
  std::vector<Result> out(count);
  Normalizer(info, base::dtype_of<Result>())(std::as_bytes(std::span(row)).data(),
                                             std::as_writable_bytes(std::span(out)).data());
  const double tolerance = sizeof(Result) == 4 ? 1e-5 : 1e-13;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t channel = i / (count / channels);
    const double expected = (static_cast<double>(row[i]) / 255 - info.normalization.mean[channel]) /
                            info.normalization.std[channel];
    EXPECT_NEAR(out[i], expected, tolerance * std::max(1.0, std::abs(expected))) << i;
  }
}

TEST(Normalizer, ScalesEveryKind) {
  for (const std::size_t channels : {1u, 3u}) {
    for (const Shape& shape : {Shape{3}, Shape{3, 1}, Shape{3, 5, 7}, Shape{3, 32, 32}}) {
      expect_normalized<std::uint8_t, float>(shape, channels);
      expect_normalized<std::uint8_t, double>(shape, channels);
      expect_normalized<float, float>(shape, channels);
      expect_normalized<float, double>(shape, channels);
    }
  }
}

TEST(Normalizer, LeavesValuesAloneByDefault) {
  DatasetInfo info;
  info.dtype = DType::float32;
  info.feature_shape = Shape{4};
  const std::vector<float> row{-1.5f, 0, 1e-30f, 3e30f};
  std::vector<float> out(4);
  Normalizer(info, DType::float32)(std::as_bytes(std::span(row)).data(),
                                   std::as_writable_bytes(std::span(out)).data());
  EXPECT_EQ(out, row);
}

TEST(Normalizer, OneMeanServesManyStds) {
  DatasetInfo info;
  info.dtype = DType::float32;
  info.feature_shape = Shape{2};
  info.normalization = {1, {1}, {2, 4}};
  const std::vector<float> row{5, 5};
  std::vector<float> out(2);
  Normalizer(info, DType::float32)(std::as_bytes(std::span(row)).data(),
                                   std::as_writable_bytes(std::span(out)).data());
  EXPECT_EQ(out, (std::vector<float>{2, 1}));
}

TEST(Normalizer, RefusesOtherTypes) {
  DatasetInfo info;
  info.feature_shape = Shape{1};
  EXPECT_THROW(Normalizer(info, DType::int64), UsageError);
  EXPECT_THROW(Normalizer(info, DType::bfloat16), UsageError);
}

}  // namespace
}  // namespace lockstep::data
