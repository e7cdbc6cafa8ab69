#pragma once

#include <memory>
#include <vector>

#include "framework/nn/linear.h"
#include "framework/nn/module.h"
#include "framework/nn/sequential.h"
#include "models/registry.h"

namespace lockstep::models {

struct MlpOptions {
  std::vector<std::int64_t> hidden;  // widths; none makes it a linear model
  Activation activation = Activation::relu;
  double dropout = 0;  // after every hidden layer
};

// Multi-layer perceptron: x [rows, ...] to logits [rows, classes]. Parameters are
// "hidden.<i>.weight", "hidden.<i>.bias", "output.weight" and "output.bias".
class Mlp final : public nn::Module {
 public:
  Mlp(Context& context, const MlpOptions& options, const ModelInput& input);

  Variable forward(const Variable& x) override;

 private:
  std::shared_ptr<nn::Module> flatten_;
  std::shared_ptr<nn::Sequential> hidden_;
  std::shared_ptr<nn::Sequential> dropout_;
  std::shared_ptr<nn::Linear> output_;
};

ModelSpec mlp_spec();

}  // namespace lockstep::models
