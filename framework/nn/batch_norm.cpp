#include "framework/nn/batch_norm.h"

#include <fmt/core.h>

#include "framework/base/error.h"
#include "framework/kernels/kernels.h"
#include "framework/nn/init.h"

namespace lockstep::nn {
namespace {

Tensor filled(Context& context, std::int64_t features, DType dtype, double value) {
  const Tensor tensor = Tensor::empty(context, Shape{features}, dtype);
  kernels::kernels_for(context).fill(value, tensor);
  return tensor;
}

}  // namespace

BatchNorm1d::BatchNorm1d(Context& context, std::int64_t features, const BatchNormOptions& options)
    : options_{.momentum = options.momentum, .epsilon = options.epsilon} {
  if (features < 1)
    throw UsageError(fmt::format("batch norm: {} features, expected a positive number", features));
  if (!(options.momentum >= 0 && options.momentum <= 1))
    throw UsageError(
        fmt::format("batch norm: momentum {}, expected one in [0, 1]", options.momentum));
  if (!(options.epsilon > 0))
    throw UsageError(fmt::format("batch norm: epsilon {}, expected one above 0", options.epsilon));
  const auto make = [&] { return Tensor::empty(context, Shape{features}, options.dtype); };
  weight_ = register_parameter("weight", make(), constant(1));
  bias_ = register_parameter("bias", make(), zeros());
  running_mean_ = register_buffer("running_mean", filled(context, features, options.dtype, 0));
  running_var_ = register_buffer("running_var", filled(context, features, options.dtype, 1));
}

Variable BatchNorm1d::forward(const Variable& x) {
  options_.training = training();
  return ops::batch_norm(x, weight_, bias_, running_mean_, running_var_, options_, path());
}

}  // namespace lockstep::nn
