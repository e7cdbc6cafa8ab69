// The constants of optimizer steps in memory of the device.
#pragma once

#include "framework/kernels/operations.h"
#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

// Memory for the constants of steps on parameters like this one, and the constants themselves: the
// steps enqueued afterwards take them, those enqueued before do not. The host does not wait.
Tensor make_sgd_constants(const Tensor& parameter);
Tensor make_adam_constants(const Tensor& parameter);
void store_constants(const SgdOptions& options, const Tensor& constants);
void store_constants(const AdamOptions& options, const Tensor& constants);

}  // namespace lockstep::kernels
