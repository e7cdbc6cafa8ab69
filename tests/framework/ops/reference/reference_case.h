#pragma once

#include <string>
#include <vector>

#include "framework/base/shape.h"

namespace lockstep::ops {

struct ReferenceTensor {
  Shape shape;
  std::vector<double> values;
};

// What an independent implementation makes of `inputs`: the output, and the gradients of
// sum(output * weight).
struct ReferenceCase {
  std::string name;
  std::vector<ReferenceTensor> inputs;
  ReferenceTensor weight;
  ReferenceTensor output;
  std::vector<ReferenceTensor> gradients;
};

}  // namespace lockstep::ops
