#include "comm/ring/cpu/reduce_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::comm::ring {

namespace {

template <class T>
std::vector<std::byte*> pointers(std::vector<std::vector<T>>& data) {
  std::vector<std::byte*> result;
  for (auto& d : data) result.push_back(reinterpret_cast<std::byte*>(d.data()));
  return result;
}

// Streams of more than one pass, counts that are no multiple of a vector, in place.
TEST(ReduceKernels, AnyNumberOfStreamsInPlace) {
  for (std::size_t streams = 1; streams <= 33; ++streams) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{1543}}) {
      std::vector<std::vector<float>> data(streams, std::vector<float>(count));
      for (std::size_t s = 0; s < streams; ++s)
        for (std::size_t i = 0; i < count; ++i) data[s][i] = static_cast<float>(s * 3 + i % 100);
      const auto places = pointers(data);
      const std::vector<const std::byte*> from(places.begin(), places.end());
      reduce_to_all(DType::float32, ReduceOp::avg, from, places, count);
      for (std::size_t s = 0; s < streams; ++s) {
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t sum = 3 * (streams * (streams - 1) / 2) + streams * (i % 100);
          ASSERT_EQ(data[s][i], static_cast<float>(sum) / static_cast<float>(streams))
              << streams << " streams, element " << i;
        }
      }
    }
  }
}

// The order of summation is that of the streams, whatever the number of passes.
TEST(ReduceKernels, AddsInTheOrderOfTheStreams) {
  constexpr std::size_t streams = 20, count = 700;
  std::vector<std::vector<float>> data(streams, std::vector<float>(count));
  for (std::size_t s = 0; s < streams; ++s)
    for (std::size_t i = 0; i < count; ++i)
      data[s][i] = std::sin(static_cast<float>(s * count + i)) * static_cast<float>(1 << (s % 7));
  std::vector<float> expected = data[0];
  for (std::size_t s = 1; s < streams; ++s)
    for (std::size_t i = 0; i < count; ++i) expected[i] += data[s][i];
  const auto places = pointers(data);
  const std::vector<const std::byte*> from(places.begin(), places.end());
  std::vector<float> out(count);
  std::byte* const to = reinterpret_cast<std::byte*>(out.data());
  reduce_to_all(DType::float32, ReduceOp::sum, from, {&to, 1}, count);
  EXPECT_EQ(out, expected);
}

TEST(ReduceKernels, StepsAndStreamsGiveTheSameBits) {
  constexpr std::size_t streams = 5, count = 333;
  std::vector<std::vector<float16>> data(streams, std::vector<float16>(count));
  for (std::size_t s = 0; s < streams; ++s)
    for (std::size_t i = 0; i < count; ++i)
      data[s][i] = float16(std::cos(static_cast<float>(s * count + i)));
  const StepKernels& steps = step_kernels(DType::float16, ReduceOp::avg);
  EXPECT_EQ(steps.element_bytes, 2u);
  EXPECT_EQ(steps.accumulator_bytes, 4u);
  std::vector<float> partial(count);
  std::vector<float16> by_steps(count), by_streams(count);
  steps.load(partial.data(), data[0].data(), count);
  for (std::size_t s = 1; s < streams; ++s)
    steps.combine(partial.data(), partial.data(), data[s].data(), count);
  steps.finish(by_steps.data(), partial.data(), count, streams);
  const auto places = pointers(data);
  const std::vector<const std::byte*> from(places.begin(), places.end());
  std::byte* const to = reinterpret_cast<std::byte*>(by_streams.data());
  reduce_to_all(DType::float16, ReduceOp::avg, from, {&to, 1}, count);
  EXPECT_EQ(by_steps, by_streams);
}

TEST(ReduceKernels, NotANumberSurvivesOnEitherSide) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min}) {
    for (std::size_t where = 0; where < 3; ++where) {
      std::vector<std::vector<float>> data(3, std::vector<float>(20, 1.0f));
      data[where].assign(20, nan);
      const auto places = pointers(data);
      const std::vector<const std::byte*> from(places.begin(), places.end());
      reduce_to_all(DType::float32, op, from, places, 20);
      for (const float found : data[0]) EXPECT_TRUE(std::isnan(found)) << name_of(op);
    }
  }
}

TEST(ReduceKernels, IntegerSumsWrapAround) {
  std::vector<std::vector<std::int32_t>> data(
      2, std::vector<std::int32_t>(40, std::numeric_limits<std::int32_t>::max()));
  const auto places = pointers(data);
  const std::vector<const std::byte*> from(places.begin(), places.end());
  reduce_to_all(DType::int32, ReduceOp::sum, from, places, 40);
  for (const std::int32_t found : data[1]) EXPECT_EQ(found, -2);
}

}  // namespace

}  // namespace lockstep::comm::ring
