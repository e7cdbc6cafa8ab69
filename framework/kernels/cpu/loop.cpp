#include "framework/kernels/cpu/loop.h"

namespace lockstep::kernels {

Loop::Loop(std::span<const Tensor* const> operands) {
  const Shape& shape = operands[0]->shape();
  std::array<Strides, max_operands> strides;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    strides[i] = broadcast_strides(*operands[i], shape);
  }
  for (int i = 0; i < shape.rank(); ++i) {
    Axis axis{shape[i], {}};
    for (std::size_t operand = 0; operand < operands.size(); ++operand) {
      axis.stride[operand] = strides[operand][static_cast<std::size_t>(i)];
    }
    outer_.add(axis);
  }
  outer_.sort([](const Axis& axis) { return axis.stride[0]; });
  outer_.merge();
  inner_ = outer_.pop();
  rows_ = outer_.count();
}

}  // namespace lockstep::kernels
