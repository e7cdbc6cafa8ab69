// A tensor's memory as collectives take it.
#pragma once

#include "comm/communicator.h"
#include "framework/tensor/tensor.h"

namespace lockstep::train {

// Of a contiguous tensor.
inline comm::Range range_of(const Tensor& tensor) {
  return {tensor.data(), tensor.count(), tensor.dtype()};
}

}  // namespace lockstep::train
