#include <fmt/core.h>

#include "framework/base/error.h"
#include "framework/kernels/stored_constants.h"
#include "framework/optim/optimizer.h"

namespace lockstep::optim {
namespace {

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(nn::ParameterArena& arena, const Sgd& options, Shard shard)
      : Optimizer(arena, std::move(shard)), options_(options) {
    if (options.momentum > 0) add_state("momentum");
  }

  std::string_view name() const override { return "sgd"; }

 private:
  Tensor make_constants(const Tensor& parameters) const override {
    return kernels::make_sgd_constants(parameters);
  }
  void store_constants(double lr, const Tensor& constants) const override {
    kernels::store_constants(
        kernels::SgdOptions{
            .lr = lr, .momentum = options_.momentum, .weight_decay = options_.weight_decay},
        constants);
  }

  void update(const nn::ParameterArena::Segment& segment, const Range& range,
              const Tensor& constants, const kernels::GradientUse& use) override {
    // The state starts at zero, so the first update blends like any other: momentum * 0 + gradient.
    const Tensor momentum = state().empty() ? Tensor() : range.of(state().front());
    kernels::kernels_for(segment.parameters.context())
        .sgd_step(range.of(segment.parameters), range.of(segment.working),
                  range.of(segment.gradients), momentum, options_.nesterov, constants, use);
  }

  Sgd options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(nn::ParameterArena& arena, const Sgd& options, Shard shard) {
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw ConfigError(fmt::format("sgd: momentum is {}, expected one in [0, 1)", options.momentum));
  }
  if (!(options.weight_decay >= 0)) {
    throw ConfigError(
        fmt::format("sgd: weight_decay is {}, expected one >= 0", options.weight_decay));
  }
  if (options.nesterov && options.momentum == 0) {
    throw ConfigError("sgd: nesterov is on and momentum is 0, expected momentum > 0");
  }
  return std::make_unique<SgdOptimizer>(arena, options, std::move(shard));
}

}  // namespace lockstep::optim
