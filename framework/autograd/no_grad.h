#pragma once

#include "framework/device/context.h"

namespace lockstep::autograd {

// While it lives, operations on `context` record nothing.
class NoGrad {
 public:
  explicit NoGrad(Context& context) : context_(context), before_(context.recording()) {
    context.set_recording(false);
  }
  ~NoGrad() { context_.set_recording(before_); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Context& context_;
  bool before_;
};

}  // namespace lockstep::autograd
