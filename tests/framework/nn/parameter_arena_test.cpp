#include "framework/nn/parameter_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "framework/autograd/engine.h"
#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/nn/init.h"
#include "framework/nn/linear.h"
#include "framework/ops/ops.h"
#include "tests/framework/nn/open_module.h"

namespace lockstep::nn {
namespace {

using testing::Each;
using testing::ElementsAre;

std::vector<std::string> names_of(const ParameterArena::Segment& segment) {
  std::vector<std::string> names;
  for (const auto& entry : segment.entries) names.push_back(entry.name);
  return names;
}

class ParameterArenaTest : public testing::Test {
 protected:
  Variable add(OpenModule& module, const std::string& name, const Shape& shape,
               DType dtype = DType::float32) {
    return module.register_parameter(name, Tensor::empty(*context_, shape, dtype), normal(0, 1));
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
};

TEST_F(ParameterArenaTest, EntriesLieInTheGivenOrderAlignedAndUnlistedLast) {
  OpenModule model;
  add(model, "a", {3});
  add(model, "b", {33});
  add(model, "c", {2, 16});
  add(model, "d", {});
  const ParameterArena arena(*context_, model, {2, 0});
  ASSERT_EQ(arena.segments().size(), 1u);
  const auto& segment = arena.segments()[0];
  EXPECT_THAT(names_of(segment), ElementsAre("c", "a", "b", "d"));
  std::vector<std::int64_t> places;
  for (const auto& entry : segment.entries) places.insert(places.end(), {entry.begin, entry.end});
  EXPECT_THAT(places, ElementsAre(0, 32, 32, 35, 64, 97, 128, 129));  // 128 bytes are 32 floats
  EXPECT_EQ(segment.parameters.shape(), Shape({160}));
  EXPECT_EQ(segment.gradients.shape(), Shape({160}));
  EXPECT_EQ(arena.parameter_count(), 3 + 33 + 32 + 1);
  EXPECT_EQ(arena.bytes(), 640u);
}

TEST_F(ParameterArenaTest, ValuesAreKeptAndPaddingAndGradientsAreZero) {
  std::mt19937 random(5);
  OpenModule model;
  for (int i = 0; i < 20; ++i) {
    const auto extent = [&] { return std::uniform_int_distribution<std::int64_t>(1, 40)(random); };
    add(model, "p" + std::to_string(i), {extent(), extent()});
  }
  model.initialize(9);
  std::vector<std::vector<float>> before;
  for (const auto& parameter : model.named_parameters()) {
    const auto values = parameter.variable.value().elements<float>();
    before.emplace_back(values.begin(), values.end());
  }
  std::vector<std::size_t> order(20);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::shuffle(order, random);

  const ParameterArena arena(*context_, model, order);
  const auto& segment = arena.segments()[0];
  const auto flat = segment.parameters.elements<float>();
  std::vector<bool> is_padding(flat.size(), true);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& entry = segment.entries[i];
    EXPECT_EQ(entry.begin % 32, 0);
    const auto place = flat.subspan(static_cast<std::size_t>(entry.begin),
                                    static_cast<std::size_t>(entry.end - entry.begin));
    EXPECT_THAT(place, testing::ElementsAreArray(before[order[i]])) << entry.name;
    EXPECT_EQ(entry.parameter.value().data(), place.data());
    std::fill(is_padding.begin() + entry.begin, is_padding.begin() + entry.end, false);
  }
  for (std::size_t i = 0; i < flat.size(); ++i) {
    if (is_padding[i]) {
      EXPECT_EQ(flat[i], 0.0f) << i;
    }
  }
  EXPECT_THAT(segment.gradients.elements<float>(), Each(0.0f));
}

TEST_F(ParameterArenaTest, ParametersAndGradientsAreViews) {
  Linear linear(*context_, 3, 2);
  linear.initialize(1);
  ParameterArena arena(*context_, linear, {});
  auto& segment = arena.segments()[0];
  linear.weight().value().elements<float>()[5] = 42;
  EXPECT_EQ(segment.parameters.elements<float>()[5], 42.0f);
  segment.parameters.elements<float>()[0] = -1;
  EXPECT_EQ(linear.weight().value().elements<float>()[0], -1.0f);

  // A backward writes straight into the flat gradient.
  const Variable x(Tensor::from<float>(*context_, {1, 2, 3}, {1, 3}));
  autograd::backward(ops::sum(linear(x)));
  const auto gradients = segment.gradients.elements<float>();
  EXPECT_THAT(gradients.first(6), ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_THAT(gradients.subspan(32, 2), ElementsAre(1, 1));
  EXPECT_TRUE(linear.weight().grad().shares_memory_with(segment.gradients));
}

TEST_F(ParameterArenaTest, AWorkingCopyFollowsTheParameters) {
  Linear linear(*context_, 3, 2);
  linear.initialize(1);
  ParameterArena arena(*context_, linear, {});
  EXPECT_EQ(arena.working_bytes(), 0u);
  EXPECT_FALSE(linear.weight().working_copy().defined());
  arena.refresh_working_copy();  // of nothing
  arena.keep_working_copy();
  const auto& segment = arena.segments()[0];
  EXPECT_EQ(arena.working_bytes(), arena.bytes() / 2);
  EXPECT_TRUE(linear.weight().working_copy().shares_memory_with(segment.working));
  const auto expect_rounded = [&] {
    for (const auto& entry : segment.entries) {
      const auto value = entry.parameter.value().elements<float>();
      const auto copy = entry.parameter.working_copy().elements<bfloat16>();
      for (std::size_t i = 0; i < value.size(); ++i) EXPECT_EQ(copy[i], bfloat16(value[i]));
    }
  };
  expect_rounded();
  linear.weight().value().elements<float>()[5] = 42.1f;
  arena.refresh_working_copy();
  expect_rounded();
  Variable weight = linear.weight();
  EXPECT_THROW(weight.set_working_copy(Tensor::empty(*context_, {2, 3})), UsageError);
}

TEST_F(ParameterArenaTest, OneSegmentForEachDTypeWhateverTheOrder) {
  const auto layout = [&](const std::vector<std::size_t>& order) {
    OpenModule model;
    add(model, "half", {5}, DType::float16);
    add(model, "double", {17}, DType::float64);
    add(model, "single", {1});
    add(model, "double2", {2}, DType::float64);
    const ParameterArena arena(*context_, model, order);
    std::vector<std::string> description;
    for (const auto& segment : arena.segments()) {
      EXPECT_EQ(segment.parameters.dtype(), segment.dtype);
      description.emplace_back(base::name_of(segment.dtype));
      for (const auto& entry : segment.entries) {
        description.push_back(entry.name + " " + std::to_string(entry.begin));
      }
    }
    return description;
  };
  EXPECT_THAT(layout({0, 1, 2, 3}), ElementsAre("float32", "single 0", "float64", "double 0",
                                                "double2 32", "float16", "half 0"));
  EXPECT_THAT(layout({3, 2, 0, 1}), ElementsAre("float32", "single 0", "float64", "double2 0",
                                                "double 16", "float16", "half 0"));
}

TEST_F(ParameterArenaTest, TiedParameterHasOnePlace) {
  const auto first = std::make_shared<OpenModule>();
  const Variable weight = add(*first, "w", {4});
  OpenModule model;
  model.register_module("first", first);
  model.register_tied("again", weight);
  const ParameterArena arena(*context_, model, {0});
  EXPECT_THAT(names_of(arena.segments()[0]), ElementsAre("again"));
  EXPECT_EQ(arena.parameter_count(), 4);
  EXPECT_TRUE(weight.value().shares_memory_with(arena.segments()[0].parameters));
}

TEST_F(ParameterArenaTest, FindGivesSegmentAndEntry) {
  OpenModule model;
  const Variable a = add(model, "a", {2}, DType::float64);
  const Variable b = add(model, "b", {2});
  const Variable c = add(model, "c", {2});
  const ParameterArena arena(*context_, model, {2, 1, 0});
  using Place = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(arena.find(a), Place(1, 0));
  EXPECT_EQ(arena.find(b), Place(0, 1));
  EXPECT_EQ(arena.find(c), Place(0, 0));
  EXPECT_THROW(arena.find(a.detach()), UsageError);
  EXPECT_THROW(arena.find(Variable()), UsageError);
}

TEST_F(ParameterArenaTest, MemoryComesFromTheSources) {
  OpenModule model;
  add(model, "a", {3});
  add(model, "b", {3}, DType::float64);
  std::vector<std::size_t> asked;
  std::vector<Buffer> given;
  const BufferSource source = [&](std::size_t bytes) {
    asked.push_back(bytes);
    given.emplace_back(context_->allocator(), bytes + 512);  // more is fine
    return given.back();
  };
  const ParameterArena arena(*context_, model, {}, source);
  EXPECT_THAT(asked, ElementsAre(128, 128));
  EXPECT_EQ(arena.segments()[0].gradients.data(), given[0].data());
  EXPECT_EQ(arena.segments()[1].gradients.data(), given[1].data());
  EXPECT_NE(arena.segments()[0].parameters.buffer().data(), given[0].data());

  OpenModule other;
  add(other, "a", {3});
  const ParameterArena both(*context_, other, {}, source, source);
  EXPECT_EQ(asked.size(), 4u);

  // Nothing is moved when the last of the segments cannot be had.
  OpenModule third;
  const Variable kept = add(third, "a", {3});
  add(third, "b", {3}, DType::float64);
  int calls = 0;
  const BufferSource stingy = [&](std::size_t bytes) {
    return Buffer(context_->allocator(), ++calls == 2 ? bytes - 1 : bytes);
  };
  EXPECT_THROW(ParameterArena(*context_, third, {}, stingy), UsageError);
  EXPECT_FALSE(kept.grad().defined());
}

TEST_F(ParameterArenaTest, BadOrdersAreErrors) {
  OpenModule model;
  add(model, "a", {3});
  add(model, "b", {3});
  EXPECT_THROW(ParameterArena(*context_, model, {2}), UsageError);
  EXPECT_THROW(ParameterArena(*context_, model, {1, 1}), UsageError);
}

TEST_F(ParameterArenaTest, ModelWithoutParametersHasNoSegments) {
  OpenModule model;
  const ParameterArena arena(*context_, model, {});
  EXPECT_TRUE(arena.segments().empty());
  EXPECT_EQ(arena.bytes(), 0u);
}

}  // namespace
}  // namespace lockstep::nn
