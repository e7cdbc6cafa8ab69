#include <fmt/core.h>

#include "framework/base/error.h"
#include "framework/kernels/stored_constants.h"
#include "framework/optim/optimizer.h"

namespace lockstep::optim {
namespace {

class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(nn::ParameterArena& arena, const Adam& options, Shard shard)
      : Optimizer(arena, std::move(shard)), options_(options) {
    add_state("first_moment");
    add_state("second_moment");
  }

  std::string_view name() const override { return options_.decoupled ? "adamw" : "adam"; }

 private:
  Tensor make_constants(const Tensor& parameters) const override {
    return kernels::make_adam_constants(parameters);
  }
  void store_constants(double lr, const Tensor& constants) const override {
    kernels::store_constants(kernels::AdamOptions{.lr = lr,
                                                  .beta1 = options_.beta1,
                                                  .beta2 = options_.beta2,
                                                  .epsilon = options_.epsilon,
                                                  .weight_decay = options_.weight_decay,
                                                  .decoupled = options_.decoupled,
                                                  .step = updates()},
                             constants);
  }

  void update(const nn::ParameterArena::Segment& segment, const Range& range,
              const Tensor& constants, const kernels::GradientUse& use) override {
    kernels::kernels_for(segment.parameters.context())
        .adam_step(range.of(segment.parameters), range.of(segment.working),
                   range.of(segment.gradients), range.of(state()[0]), range.of(state()[1]),
                   constants, use);
  }

  Adam options_;
};

void require(bool holds, std::string_view option, double value, std::string_view expected) {
  if (!holds) {
    throw ConfigError(fmt::format("adam: {} is {}, expected one {}", option, value, expected));
  }
}

}  // namespace

std::unique_ptr<Optimizer> make_adam(nn::ParameterArena& arena, const Adam& options, Shard shard) {
  require(options.beta1 >= 0 && options.beta1 < 1, "beta1", options.beta1, "in [0, 1)");
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2", options.beta2, "in [0, 1)");
  require(options.epsilon > 0, "epsilon", options.epsilon, "> 0");
  require(options.weight_decay >= 0, "weight_decay", options.weight_decay, ">= 0");
  return std::make_unique<AdamOptimizer>(arena, options, std::move(shard));
}

}  // namespace lockstep::optim
