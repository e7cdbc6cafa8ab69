// StoredScalar: a number that the host sets now and then and kernels read when they run.
#pragma once

#include <optional>

#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

// Used by the context's thread.
class StoredScalar {
 public:
  explicit StoredScalar(Context& context) : tensor_(Tensor::empty(context, {1}, DType::float64)) {}

  // Work enqueued from now on reads `value`; nothing is enqueued where it does already.
  void set(double value) {
    if (value == value_) return;
    kernels_for(tensor_.context()).fill(value, tensor_);
    value_ = value;
  }
  const Tensor& tensor() const { return tensor_; }  // float64 [1]

 private:
  Tensor tensor_;
  std::optional<double> value_;
};

}  // namespace lockstep::kernels
