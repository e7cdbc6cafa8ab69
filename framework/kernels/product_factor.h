#pragma once

#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

// A factor as products of its context read it: a copy in bfloat16 where float32 is to be rounded to
// that (Kernels::set_product_precision), otherwise the tensor itself.
Tensor product_factor(const Tensor& value);

}  // namespace lockstep::kernels
