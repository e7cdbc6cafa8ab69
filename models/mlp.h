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
  // Between every hidden layer and its activation; the layer has no bias then, since the norm
  // shifts.
  bool batch_norm = false;
  double dropout = 0;  // after every hidden layer
};

// Multi-layer perceptron: x [rows, ...] to logits [rows, classes]. Parameters are
// "hidden.<i>.weight", "hidden.<i>.bias", "output.weight" and "output.bias"; with batch norm
// "norm.<i>.weight" and "norm.<i>.bias" instead of "hidden.<i>.bias", and its buffers.
class Mlp final : public nn::Module {
 public:
  Mlp(Context& context, const MlpOptions& options, const ModelInput& input);

  Variable forward(const Variable& x) override;

 private:
  std::shared_ptr<nn::Module> flatten_;
  std::shared_ptr<nn::Sequential> hidden_;
  std::shared_ptr<nn::Sequential> norm_;    // empty, or a norm for each hidden layer
  std::shared_ptr<nn::Module> activation_;  // what follows a norm
  std::shared_ptr<nn::Sequential> dropout_;
  std::shared_ptr<nn::Linear> output_;
};

ModelSpec mlp_spec();

}  // namespace lockstep::models
