#pragma once

#include "framework/nn/module.h"

namespace lockstep::nn {

// [rows, ...] to [rows, features]; a view where x is contiguous.
class Flatten final : public Module {
 public:
  Variable forward(const Variable& x) override;  // UsageError for a scalar
};

}  // namespace lockstep::nn
