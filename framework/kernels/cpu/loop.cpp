#include "framework/kernels/cpu/loop.h"

namespace lockstep::kernels {

Loop::Loop(std::span<const Tensor* const> operands) : outer_(loop_axes(operands)) {
  inner_ = outer_.pop();
  rows_ = outer_.count();
}

}  // namespace lockstep::kernels
