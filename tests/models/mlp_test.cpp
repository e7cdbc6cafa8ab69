#include "models/mlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/device/cpu/cpu_context.h"

namespace lockstep::models {
namespace {

using testing::ElementsAre;

std::vector<float> weights_of(const nn::Module& model) {
  std::vector<float> weights;
  for (const auto& parameter : model.named_parameters()) {
    const auto values = parameter.variable.value().elements<float>();
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

class MlpTest : public testing::Test {
 protected:
  Variable ones(const Shape& shape, DType dtype = DType::float32) {
    const Tensor tensor = Tensor::empty(*context_, shape, dtype);
    kernels::kernels_for(*context_).fill(1.0, tensor);
    return Variable(tensor);
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
};

TEST_F(MlpTest, ParametersAreNamedByLayer) {
  const auto model = make_model(*context_, "mlp", {{"hidden", std::vector<std::int64_t>{7, 5}}},
                                {.features = {2, 3}, .classes = 4}, 1);
  std::vector<std::string> parameters;
  for (const auto& [name, variable] : model->named_parameters()) {
    parameters.push_back(name + " " + base::to_string(variable.shape()));
  }
  EXPECT_THAT(parameters,
              ElementsAre("hidden.0.weight [7, 6]", "hidden.0.bias [7]", "hidden.1.weight [5, 7]",
                          "hidden.1.bias [5]", "output.weight [4, 5]", "output.bias [4]"));
  EXPECT_EQ((*model)(ones({9, 2, 3})).shape(), Shape({9, 4}));
}

TEST_F(MlpTest, BatchNormTakesThePlaceOfTheBias) {
  const auto model = make_model(*context_, "mlp",
                                {{"hidden", std::vector<std::int64_t>{7, 5}}, {"batch_norm", true}},
                                {.features = {6}, .classes = 4}, 1);
  std::vector<std::string> names;
  for (const auto& parameter : model->named_parameters()) names.push_back(parameter.name);
  EXPECT_THAT(names,
              ElementsAre("hidden.0.weight", "hidden.1.weight", "norm.0.weight", "norm.0.bias",
                          "norm.1.weight", "norm.1.bias", "output.weight", "output.bias"));
  names.clear();
  for (const auto& buffer : model->named_buffers()) names.push_back(buffer.name);
  EXPECT_THAT(names, ElementsAre("norm.0.running_mean", "norm.0.running_var", "norm.1.running_mean",
                                 "norm.1.running_var"));
  EXPECT_EQ((*model)(ones({9, 6})).shape(), Shape({9, 4}));
}

TEST_F(MlpTest, WithoutHiddenLayersItIsLinear) {
  const auto model = make_model(*context_, "mlp", {{"hidden", std::vector<std::int64_t>{}}},
                                {.features = {6}, .classes = 4}, 1);
  EXPECT_EQ(model->parameter_count(), 28);
  EXPECT_EQ((*model)(ones({3, 6})).shape(), Shape({3, 4}));
}

TEST_F(MlpTest, ComputesItsFormula) {
  const auto model = make_model(*context_, "mlp",
                                {{"hidden", std::vector<std::int64_t>{2}}, {"activation", "tanh"}},
                                {.features = {2}, .classes = 1, .dtype = DType::float64}, 1);
  const auto parameters = model->named_parameters();
  const std::vector<std::vector<double>> values = {{0.5, -1, 2, 0.25}, {0.1, -0.2}, {3, -4}, {0.7}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::ranges::copy(values[i], parameters[i].variable.value().elements<double>().begin());
  }
  const Variable x(Tensor::from<double>(*context_, {1.5, -0.5}, {1, 2}));
  const double expected =
      3 * std::tanh(0.5 * 1.5 + 0.5 + 0.1) - 4 * std::tanh(2 * 1.5 - 0.25 * 0.5 - 0.2) + 0.7;
  EXPECT_NEAR((*model)(x).value().item<double>(), expected, 1e-14);
}

TEST_F(MlpTest, WeightsDependOnTheSeedAlone) {
  const ModelInput input{.features = {10}, .classes = 3};
  const auto make = [&](Context& context, double dropout, std::uint64_t seed) {
    return weights_of(*make_model(
        context, "mlp", {{"hidden", std::vector<std::int64_t>{30, 20}}, {"dropout", dropout}},
        input, seed));
  };
  const std::vector<float> weights = make(*context_, 0.0, 1);
  EXPECT_EQ(make(*device::make_cpu_context(2), 0.0, 1), weights);
  EXPECT_EQ(make(*context_, 0.5, 1), weights);
  EXPECT_NE(make(*context_, 0.0, 2), weights);
}

TEST_F(MlpTest, DropoutActsInTrainingOnlyWithAMaskForEachLayer) {
  const auto model =
      make_model(*context_, "mlp", {{"hidden", std::vector<std::int64_t>{64}}, {"dropout", 0.5}},
                 {.features = {4}, .classes = 2}, 1);
  const Variable x = ones({3, 4});
  const auto output = [&] {
    const auto values = (*model)(x).value().elements<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> step0 = output();
  EXPECT_EQ(output(), step0);
  EXPECT_NE(step0[0], step0[2]);  // equal rows, other masks
  context_->random().step = 1;
  EXPECT_NE(output(), step0);
  model->train(false);
  const std::vector<float> evaluated = output();
  EXPECT_EQ(evaluated[0], evaluated[2]);
  context_->random().step = 2;
  EXPECT_EQ(output(), evaluated);
}

}  // namespace
}  // namespace lockstep::models
