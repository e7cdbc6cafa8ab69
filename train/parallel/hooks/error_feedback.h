// ErrorFeedback: what compression left out of a gradient, added to the next one, so that nothing is
// lost but delayed (Seide et al.: "1-bit stochastic gradient descent", Interspeech 2014;
// Karimireddy et al.: "Error feedback fixes SignSGD", ICML 2019).
//
// The residual has the layout of the gradients. A hook adds residual * factor() to each gradient,
// sends part of the sum and stores the rest as the next residual. Residuals are as large as
// gradients were scaled; when the loss scale has changed, factor() brings them to the new one.
#pragma once

#include <vector>

#include "comm/bucketing/bucket_reduction.h"
#include "framework/nn/parameter_arena.h"
#include "train/parallel/host_values.h"

namespace lockstep::train {

class ErrorFeedback {
 public:
  // `can_undo`: steps may turn out not to be used; takes the memory of the gradients twice. The
  // arena must outlive this.
  ErrorFeedback(const nn::ParameterArena& arena, bool can_undo);

  void begin(const comm::BucketReduction::Step& step);
  void end(bool used);

  double factor() const { return factor_; }
  // Of the elements from `begin` on, on the device of the gradients; both may be the same memory.
  template <class T>
  const T* previous(std::size_t segment, std::int64_t begin) const {
    return residuals_[segment].data<T>() + begin;
  }
  template <class T>
  T* next(std::size_t segment, std::int64_t begin) const {
    return (can_undo_ ? next_ : residuals_)[segment].data<T>() + begin;
  }

  // "residual/<parameter>" of each rank, and the scale they have.
  void add_state(std::vector<comm::BucketReduction::State>& state);

 private:
  const nn::ParameterArena& arena_;
  bool can_undo_;
  std::vector<Tensor> residuals_;  // by segment, flat
  std::vector<Tensor> next_;       // swapped with them once a step was used
  HostValues<double> scale_;       // [1]: loss scale of the residuals
  double next_scale_ = 1;
  double factor_ = 1;
};

}  // namespace lockstep::train
