// What optimizer steps check of their operands, on every kind of device.
#pragma once

#include "framework/kernels/dispatch.h"
#include "framework/kernels/kernels.h"
#include "framework/kernels/update_constants.h"

namespace lockstep::kernels {

// A flat range beside the parameter's.
inline void require_range(std::string_view kernel, std::string_view operand, const Tensor& tensor,
                          const Tensor& parameter) {
  require_contiguous(kernel, operand, tensor);
  require_shape(kernel, operand, tensor, parameter.shape());
}

inline void require_update(std::string_view kernel, const Tensor& parameter, const Tensor& working,
                           const Tensor& grad, const GradientUse& use) {
  require_contiguous(kernel, "parameter", parameter);
  if (working.defined()) {
    require_range(kernel, "working", working, parameter);
    require_dtype(kernel, "working", working, DType::bfloat16);
    require_dtype(kernel, "parameter", parameter, DType::float32);
  }
  require_range(kernel, "grad", grad, parameter);
  if (use.factor.defined()) require_operand(kernel, "factor", use.factor, {1}, DType::float64);
  if (use.skip.defined()) require_operand(kernel, "skip", use.skip, {1}, DType::int32);
  if (use.nonfinite.defined())
    require_operand(kernel, "nonfinite", use.nonfinite, {1}, DType::int32);
}

inline void require_sgd_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                             const Tensor& momentum, const Tensor& constants,
                             const GradientUse& use) {
  require_update("sgd_step", parameter, working, grad, use);
  if (momentum.defined()) require_range("sgd_step", "momentum", momentum, parameter);
  require_operand("sgd_step", "constants", constants, {SgdConstants<float>::count},
                  parameter.dtype());
}

inline void require_adam_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                              const Tensor& first_moment, const Tensor& second_moment,
                              const Tensor& constants, const GradientUse& use) {
  require_update("adam_step", parameter, working, grad, use);
  require_range("adam_step", "first_moment", first_moment, parameter);
  require_range("adam_step", "second_moment", second_moment, parameter);
  require_operand("adam_step", "constants", constants, {AdamConstants<float>::count},
                  parameter.dtype());
}

inline void require_clip_factor(const Tensor& squares, const Tensor& scale, const Tensor& factor,
                                const Tensor& flag) {
  require_operand("clip_factor", "squares", squares, {squares.count()}, DType::float64);
  require_operand("clip_factor", "scale", scale, {1}, DType::float64);
  require_operand("clip_factor", "factor", factor, {1}, DType::float64);
  require_operand("clip_factor", "flag", flag, {1}, DType::int32);
}

}  // namespace lockstep::kernels
