#include "models/mlp.h"

#include <map>
#include <string>

#include "framework/nn/activation.h"
#include "framework/nn/batch_norm.h"
#include "framework/nn/dropout.h"
#include "framework/nn/flatten.h"

namespace lockstep::models {
namespace {

const std::map<std::string, Activation> activations = {{"relu", Activation::relu},
                                                       {"gelu", Activation::gelu},
                                                       {"gelu_tanh", Activation::gelu_tanh},
                                                       {"tanh", Activation::tanh},
                                                       {"sigmoid", Activation::sigmoid}};

// A weight between two layers has fewer than 2^63 elements.
constexpr double largest_width = 2147483647;

std::shared_ptr<nn::Module> make(Context& context, const Options& options,
                                 const ModelInput& input) {
  return std::make_shared<Mlp>(context,
                               MlpOptions{.hidden = options.integers("hidden"),
                                          .activation = activations.at(options.text("activation")),
                                          .batch_norm = options.boolean("batch_norm"),
                                          .dropout = options.real("dropout")},
                               input);
}

std::shared_ptr<nn::Module> activation_module(Activation activation) {
  switch (activation) {
    case Activation::none:
      return std::make_shared<nn::Sequential>();
    case Activation::relu:
      return std::make_shared<nn::Relu>();
    case Activation::gelu:
      return std::make_shared<nn::Gelu>();
    case Activation::gelu_tanh:
      return std::make_shared<nn::GeluTanh>();
    case Activation::tanh:
      return std::make_shared<nn::Tanh>();
    case Activation::sigmoid:
      return std::make_shared<nn::Sigmoid>();
  }
  __builtin_unreachable();
}

// Without a norm the activation is the layer's own. Weights start alike with and without one.
std::shared_ptr<nn::Linear> hidden_layer(Context& context, std::int64_t in, std::int64_t out,
                                         const MlpOptions& options, DType dtype) {
  return std::make_shared<nn::Linear>(
      context, in, out,
      nn::LinearOptions{.bias = !options.batch_norm,
                        .activation = options.batch_norm ? Activation::none : options.activation,
                        .dtype = dtype,
                        .weight_initializer = nn::default_weight_initializer(options.activation)});
}

}  // namespace

Mlp::Mlp(Context& context, const MlpOptions& options, const ModelInput& input)
    : flatten_(register_module("flatten", std::make_shared<nn::Flatten>())),
      hidden_(register_module("hidden", std::make_shared<nn::Sequential>())),
      norm_(register_module("norm", std::make_shared<nn::Sequential>())),
      activation_(register_module("activation", activation_module(options.activation))),
      dropout_(register_module("dropout", std::make_shared<nn::Sequential>())) {
  std::int64_t width = input.features.count();
  for (const std::int64_t next : options.hidden) {
    hidden_->append(hidden_layer(context, width, next, options, input.dtype));
    if (options.batch_norm)
      norm_->append(std::make_shared<nn::BatchNorm1d>(context, next,
                                                      nn::BatchNormOptions{.dtype = input.dtype}));
    dropout_->append(std::make_shared<nn::Dropout>(options.dropout));
    width = next;
  }
  output_ = register_module("output",
                            std::make_shared<nn::Linear>(context, width, input.classes,
                                                         nn::LinearOptions{.dtype = input.dtype}));
}

Variable Mlp::forward(const Variable& x) {
  Variable y = (*flatten_)(x);
  for (std::size_t i = 0; i < hidden_->size(); ++i) {
    y = (*hidden_)[i](y);
    if (norm_->size() > 0) y = (*activation_)((*norm_)[i](y));
    y = (*dropout_)[i](y);
  }
  return (*output_)(y);
}

ModelSpec mlp_spec() {
  using base::OptionKind;
  return {
      .name = "mlp",
      .doc =
          "Multi-layer perceptron: linear layers with an activation between them. Flattens each "
          "sample.",
      .options =
          {
              {.name = "hidden",
               .kind = OptionKind::integers,
               .default_value = std::vector<std::int64_t>{512, 256},
               .doc = "Widths of the hidden layers, first to last; [] makes it a linear model.",
               .range = base::between(1, largest_width)},
              {.name = "activation",
               .kind = OptionKind::choice,
               .default_value = "relu",
               .doc = "What follows each hidden layer.",
               .words = {"relu", "gelu", "gelu_tanh", "tanh", "sigmoid"}},
              {.name = "batch_norm",
               .kind = OptionKind::boolean,
               .default_value = false,
               .doc = "Batch normalisation between each hidden layer and its activation, by the "
                      "rows that a worker has of a batch: each needs two of them, or none."},
              {.name = "dropout",
               .kind = OptionKind::real,
               .default_value = 0.0,
               .doc = "Probability with which an output of a hidden layer is zeroed in training.",
               .range = base::from_below(0, 1)},
          },
      .make = make,
  };
}

}  // namespace lockstep::models
