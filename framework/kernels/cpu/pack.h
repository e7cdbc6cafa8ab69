// Contiguous copies of operands that a kernel cannot take as they are, from the context's
// allocator.
#pragma once

#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

inline Tensor packed(const Tensor& t) {
  const Tensor fresh = Tensor::empty(t.context(), t.shape(), t.dtype());
  cpu_kernels().copy(t, fresh);
  return fresh;
}

inline Tensor contiguous(const Tensor& t) {
  return t.is_contiguous() ? t : packed(t);
}

}  // namespace lockstep::kernels
