#pragma once

#include <string_view>

#include "framework/autograd/variable.h"

namespace lockstep::ops {

struct BatchNormOptions {
  bool training = true;
  double momentum = 0.1;  // share of the batch's statistics that the running ones take on
  double epsilon = 1e-5;
};

// Normalises each feature of x [rows, features] to mean 0 and variance 1, then scales it by weight
// and shifts it by bias, both [features]. In training by the mean and (biased) variance of the
// batch, and the running mean and (unbiased) variance follow them; otherwise by the running ones,
// which are constants then. No rows leave everything as it was. Throws UsageError for a single row
// in training, whose deviation is not defined; `name` is the layer's in that message.
Variable batch_norm(const Variable& x, const Variable& weight, const Variable& bias,
                    const Tensor& running_mean, const Tensor& running_variance,
                    const BatchNormOptions& options = {}, std::string_view name = "");

}  // namespace lockstep::ops
