#pragma once

#include "framework/autograd/variable.h"

namespace lockstep::nn {

// A key for "the same variable" in hash tables: the address of the value that all its handles
// share. It lives as long as a handle does and does not change when the value moves to other
// memory.
inline const void* identity(const Variable& variable) {
  return &variable.value();
}

}  // namespace lockstep::nn
