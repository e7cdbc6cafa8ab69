#include "framework/kernels/product_factor.h"

#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

Tensor product_factor(const Tensor& value) {
  const Kernels& kernels = kernels_for(value.context());
  if (value.dtype() != DType::float32 ||
      kernels.product_precision(value.context()) != ProductPrecision::bfloat16)
    return value;
  const Tensor rounded = Tensor::empty(value.context(), value.shape(), DType::bfloat16);
  kernels.copy(value, rounded);
  return rounded;
}

}  // namespace lockstep::kernels
