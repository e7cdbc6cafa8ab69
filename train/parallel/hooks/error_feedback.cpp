#include "train/parallel/hooks/error_feedback.h"

#include "framework/kernels/kernels.h"

namespace lockstep::train {
namespace {

std::vector<Tensor> zeros_like_gradients(const nn::ParameterArena& arena) {
  std::vector<Tensor> tensors;
  for (const auto& segment : arena.segments()) {
    Context& context = segment.gradients.context();
    tensors.push_back(Tensor::empty(context, segment.gradients.shape(), segment.dtype));
    kernels::kernels_for(context).fill(0, tensors.back());
  }
  return tensors;
}

}  // namespace

ErrorFeedback::ErrorFeedback(const nn::ParameterArena& arena, bool can_undo)
    : arena_(arena),
      can_undo_(can_undo),
      residuals_(zeros_like_gradients(arena)),
      scale_(arena.segments().front().gradients.context(), 1) {
  scale_[0] = 1;
  if (can_undo_) next_ = zeros_like_gradients(arena);
}

void ErrorFeedback::begin(const comm::BucketReduction::Step& step) {
  next_scale_ = step.loss_scale;
  factor_ = next_scale_ / scale_[0];
}

void ErrorFeedback::end(bool used) {
  if (!used) return;
  if (can_undo_) std::swap(residuals_, next_);
  scale_[0] = next_scale_;
}

void ErrorFeedback::add_state(std::vector<comm::BucketReduction::State>& state) {
  for (std::size_t s = 0; s < residuals_.size(); ++s)
    for (const auto& entry : arena_.segments()[s].entries) {
      const Tensor residual = residuals_[s].slice(0, entry.begin, entry.end);
      state.push_back({.name = "residual/" + entry.name,
                       .values = {residual.data(), residual.count(), residual.dtype()},
                       .of_rank = true});
    }
  state.push_back({.name = "residual_scale", .values = scale_.range()});
}

}  // namespace lockstep::train
