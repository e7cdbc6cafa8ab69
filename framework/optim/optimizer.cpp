#include "framework/optim/optimizer.h"

#include <fmt/core.h>

#include "framework/base/error.h"
#include "framework/kernels/kernels.h"

namespace lockstep::optim {

void Optimizer::begin_update(double lr) {
  lr_ = lr;
  ++updates_;
}

void Optimizer::apply(std::size_t segment, std::int64_t begin, std::int64_t end,
                      double grad_scale) {
  const auto& segments = arena_.segments();
  if (updates_ < 1) throw UsageError("optimizer: apply() before begin_update()");
  if (segment >= segments.size() || begin < 0 || end < begin ||
      end > segments[segment].parameters.count()) {
    throw UsageError(fmt::format("optimizer: range [{}, {}) of segment {} is not in the arena",
                                 begin, end, segment));
  }
  if (begin < end) update(segments[segment], {segment, begin, end}, grad_scale);
}

void Optimizer::apply_all(double grad_scale) {
  for (std::size_t i = 0; i < arena_.segments().size(); ++i) {
    apply(i, 0, arena_.segments()[i].parameters.count(), grad_scale);
  }
}

void Optimizer::add_state(const std::string& name) {
  State state{name, {}};
  for (const nn::ParameterArena::Segment& segment : arena_.segments()) {
    const Tensor& like = segment.parameters;
    state.segments.push_back(Tensor::empty(like.context(), like.shape(), like.dtype()));
    kernels::kernels_for(like.context()).fill(0.0, state.segments.back());
  }
  state_.push_back(std::move(state));
}

}  // namespace lockstep::optim
