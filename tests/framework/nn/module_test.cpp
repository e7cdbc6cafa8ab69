#include "framework/nn/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/nn/init.h"
#include "framework/nn/linear.h"
#include "framework/nn/sequential.h"
#include "tests/framework/nn/open_module.h"

namespace lockstep::nn {
namespace {

using testing::ElementsAre;

std::vector<std::string> parameter_names(const Module& module) {
  std::vector<std::string> names;
  for (const NamedParameter& parameter : module.named_parameters()) names.push_back(parameter.name);
  return names;
}

class ModuleTest : public testing::Test {
 protected:
  Tensor zeros_of(const Shape& shape, DType dtype = DType::float32) {
    const Tensor tensor = Tensor::empty(*context_, shape, dtype);
    kernels::kernels_for(*context_).fill(0.0, tensor);
    return tensor;
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
};

TEST_F(ModuleTest, NamesAreJoinedDepthFirstOwnPartsFirst) {
  const auto inner = std::make_shared<OpenModule>();
  inner->register_parameter("w", zeros_of({2, 3}), zeros());
  const auto outer = std::make_shared<OpenModule>();
  outer->register_module("a", inner);
  outer->register_parameter("scale", zeros_of({4}), zeros());
  outer->register_module("b", std::make_shared<Linear>(*context_, 3, 5));
  OpenModule root;
  root.register_module("body", outer);

  EXPECT_THAT(parameter_names(root),
              ElementsAre("body.scale", "body.a.w", "body.b.weight", "body.b.bias"));
  EXPECT_THAT(parameter_names(*outer), ElementsAre("scale", "a.w", "b.weight", "b.bias"));
  EXPECT_EQ(root.parameter_count(), 4 + 6 + 15 + 5);
}

TEST_F(ModuleTest, PathsAreFullNamesHoweverTheTreeIsBuilt) {
  const auto leaf = std::make_shared<OpenModule>();
  const auto middle = std::make_shared<OpenModule>();
  OpenModule root;
  root.register_module("middle", middle);
  EXPECT_EQ(middle->path(), "middle");
  middle->register_module("leaf", leaf);  // after its parent has a name
  EXPECT_EQ(leaf->path(), "middle.leaf");

  const auto other_leaf = std::make_shared<OpenModule>();
  const auto other = std::make_shared<OpenModule>();
  other->register_module("leaf", other_leaf);  // before
  EXPECT_EQ(other_leaf->path(), "leaf");
  root.register_module("other", other);
  EXPECT_EQ(other_leaf->path(), "other.leaf");
  EXPECT_EQ(root.path(), "");
}

TEST_F(ModuleTest, TiedParameterIsListedOnceUnderItsFirstName) {
  const auto embedding = std::make_shared<OpenModule>();
  const Variable weight = embedding->register_parameter("weight", zeros_of({6, 2}), constant(3));
  OpenModule head_last;
  head_last.register_module("embedding", embedding);
  const auto head = std::make_shared<OpenModule>();
  head->register_tied("weight", weight);
  head_last.register_module("head", head);
  EXPECT_THAT(parameter_names(head_last), ElementsAre("embedding.weight"));
  EXPECT_EQ(head_last.parameter_count(), 12);

  OpenModule head_first;
  head_first.register_module("head", head);
  head_first.register_module("embedding", embedding);
  EXPECT_THAT(parameter_names(head_first), ElementsAre("head.weight"));
  head_first.initialize(1);  // by the owner's initializer
  EXPECT_THAT(weight.value().elements<float>(), testing::Each(3.0f));
}

TEST_F(ModuleTest, TiedParameterWithoutItsOwnerCannotBeInitialised) {
  const Variable weight(zeros_of({2}), true);
  OpenModule root;
  root.register_tied("weight", weight);
  EXPECT_THROW(root.initialize(1), UsageError);
}

TEST_F(ModuleTest, SharedModuleIsListedOnce) {
  const auto layer = std::make_shared<OpenModule>();
  layer->register_parameter("w", zeros_of({2}), zeros());
  layer->register_buffer("mean", zeros_of({2}));
  OpenModule root;
  root.register_module("first", layer);
  root.register_module("second", layer);
  EXPECT_THAT(parameter_names(root), ElementsAre("first.w"));
  ASSERT_EQ(root.named_buffers().size(), 1u);
  EXPECT_EQ(root.named_buffers()[0].name, "first.mean");
}

TEST_F(ModuleTest, BuffersAreListedByNameAndShareMemory) {
  const auto norm = std::make_shared<OpenModule>();
  const Tensor mean = norm->register_buffer("mean", zeros_of({3}));
  norm->register_buffer("count", zeros_of({1}, DType::int64));
  OpenModule root;
  root.register_module("norm", norm);
  const auto buffers = root.named_buffers();
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].name, "norm.mean");
  EXPECT_EQ(buffers[1].name, "norm.count");
  EXPECT_TRUE(buffers[0].tensor.shares_memory_with(mean));
}

TEST_F(ModuleTest, TrainReachesEveryModule) {
  const auto inner = std::make_shared<OpenModule>();
  const auto outer = std::make_shared<OpenModule>();
  outer->register_module("inner", inner);
  OpenModule root;
  root.register_module("outer", outer);
  EXPECT_TRUE(inner->training());
  root.train(false);
  EXPECT_FALSE(root.training());
  EXPECT_FALSE(inner->training());
  outer->train();
  EXPECT_TRUE(inner->training());
  EXPECT_FALSE(root.training());
}

TEST_F(ModuleTest, ParametersRequireGradients) {
  const Linear linear(*context_, 2, 2);
  for (const NamedParameter& parameter : linear.named_parameters()) {
    EXPECT_TRUE(parameter.variable.requires_grad());
    EXPECT_TRUE(parameter.variable.is_leaf());
  }
}

TEST_F(ModuleTest, BadRegistrationsAreErrors) {
  OpenModule module;
  module.register_parameter("w", zeros_of({1}), zeros());
  EXPECT_THROW(module.register_buffer("w", zeros_of({1})), UsageError);
  EXPECT_THROW(module.register_module("w", std::make_shared<OpenModule>()), UsageError);
  EXPECT_THROW(module.register_parameter("", zeros_of({1}), zeros()), UsageError);
  EXPECT_THROW(module.register_parameter("a.b", zeros_of({1}), zeros()), UsageError);
  EXPECT_THROW(module.register_parameter("undefined", Tensor(), zeros()), UsageError);
  EXPECT_THROW(module.register_parameter("uninitialised", zeros_of({1}), {}), UsageError);
  EXPECT_THROW(module.register_parameter("whole", zeros_of({1}, DType::int32), zeros()),
               UsageError);
  EXPECT_THROW(module.register_module("null", std::shared_ptr<OpenModule>()), UsageError);
  EXPECT_THROW(module.register_tied("undefined", Variable()), UsageError);
  EXPECT_THAT(parameter_names(module), ElementsAre("w"));
}

TEST_F(ModuleTest, SequentialNamesItsPartsByPosition) {
  const Sequential sequential{std::make_shared<Linear>(*context_, 2, 3),
                              std::make_shared<Linear>(*context_, 3, 1)};
  EXPECT_THAT(parameter_names(sequential), ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
  EXPECT_EQ(sequential.size(), 2u);
}

}  // namespace
}  // namespace lockstep::nn
