#include "framework/nn/flatten.h"

#include "framework/base/error.h"
#include "framework/ops/view.h"

namespace lockstep::nn {

Variable Flatten::forward(const Variable& x) {
  const Shape& shape = x.shape();
  if (shape.rank() == 0) throw UsageError("flatten: x is a scalar, expected [rows, ...]");
  if (shape.rank() == 2) return x;
  // Not left to reshape as -1, which an empty batch would make ambiguous.
  std::int64_t features = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) features *= shape[axis];
  return ops::reshape(x, {shape[0], features});
}

}  // namespace lockstep::nn
