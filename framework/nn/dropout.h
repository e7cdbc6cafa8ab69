#pragma once

#include "framework/nn/module.h"

namespace lockstep::nn {

// Dropout in training mode, the identity in evaluation (Srivastava et al., JMLR 2014). The mask is
// keyed by the module's path in the model, so two dropouts of one model draw different masks, while
// two calls of one module within a step draw the same.
class Dropout final : public Module {
 public:
  explicit Dropout(double p);  // in [0, 1), or UsageError
  Variable forward(const Variable& x) override;

 private:
  double p_;
};

}  // namespace lockstep::nn
