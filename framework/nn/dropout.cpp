#include "framework/nn/dropout.h"

#include <fmt/core.h>

#include "framework/base/error.h"
#include "framework/ops/dropout.h"

namespace lockstep::nn {

Dropout::Dropout(double p) : p_(p) {
  if (!(p >= 0 && p < 1)) {
    throw UsageError(fmt::format("dropout: probability {}, expected one in [0, 1)", p));
  }
}

Variable Dropout::forward(const Variable& x) {
  return training() && p_ > 0 ? ops::dropout(x, p_, path()) : x;
}

}  // namespace lockstep::nn
