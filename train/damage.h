// Faults asked for by a test, done to values.
#pragma once

#include "framework/tensor/tensor.h"
#include "train/fault.h"

namespace lockstep::train {

// Breaks the first element of a tensor on the CPU, or nothing where no damage was asked for.
void damage(Damage kind, const Tensor& tensor);

}  // namespace lockstep::train
