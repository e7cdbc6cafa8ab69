#pragma once

#include <functional>
#include <utility>

#include "framework/nn/module.h"

namespace lockstep::nn {

// A module whose parts and formula the test decides.
class OpenModule final : public Module {
 public:
  using Formula = std::function<Variable(const Variable&)>;

  explicit OpenModule(Formula formula = [](const Variable& x) { return x; })
      : formula_(std::move(formula)) {}

  using Module::register_buffer;
  using Module::register_module;
  using Module::register_parameter;
  using Module::register_tied;

  void set_formula(Formula formula) { formula_ = std::move(formula); }
  Variable forward(const Variable& x) override { return formula_(x); }

 private:
  Formula formula_;
};

}  // namespace lockstep::nn
