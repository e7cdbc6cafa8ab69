#pragma once

#include "framework/autograd/variable.h"

namespace lockstep::ops {

// Over the last axis.
Variable softmax(const Variable& x);
Variable log_softmax(const Variable& x);

}  // namespace lockstep::ops
