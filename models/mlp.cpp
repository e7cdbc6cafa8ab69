#include "models/mlp.h"

#include <map>
#include <string>

#include "framework/nn/dropout.h"
#include "framework/nn/flatten.h"

namespace lockstep::models {
namespace {

const std::map<std::string, Activation> activations = {{"relu", Activation::relu},
                                                       {"gelu", Activation::gelu},
                                                       {"tanh", Activation::tanh},
                                                       {"sigmoid", Activation::sigmoid}};

std::shared_ptr<nn::Module> make(Context& context, const Options& options,
                                 const ModelInput& input) {
  return std::make_shared<Mlp>(context,
                               MlpOptions{.hidden = options.integers("hidden"),
                                          .activation = activations.at(options.text("activation")),
                                          .dropout = options.real("dropout")},
                               input);
}

}  // namespace

Mlp::Mlp(Context& context, const MlpOptions& options, const ModelInput& input)
    : flatten_(register_module("flatten", std::make_shared<nn::Flatten>())),
      hidden_(register_module("hidden", std::make_shared<nn::Sequential>())),
      dropout_(register_module("dropout", std::make_shared<nn::Sequential>())) {
  std::int64_t width = input.features.count();
  for (const std::int64_t next : options.hidden) {
    hidden_->append(std::make_shared<nn::Linear>(
        context, width, next,
        nn::LinearOptions{.activation = options.activation, .dtype = input.dtype}));
    dropout_->append(std::make_shared<nn::Dropout>(options.dropout));
    width = next;
  }
  output_ = register_module("output",
                            std::make_shared<nn::Linear>(context, width, input.classes,
                                                         nn::LinearOptions{.dtype = input.dtype}));
}

Variable Mlp::forward(const Variable& x) {
  Variable y = (*flatten_)(x);
  for (std::size_t i = 0; i < hidden_->size(); ++i) y = (*dropout_)[i]((*hidden_)[i](y));
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
               .range = base::at_least(1)},
              {.name = "activation",
               .kind = OptionKind::choice,
               .default_value = "relu",
               .doc = "What follows each hidden layer.",
               .words = {"relu", "gelu", "tanh", "sigmoid"}},
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
