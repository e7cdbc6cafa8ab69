#include "framework/nn/sequential.h"

#include <string>

namespace lockstep::nn {

Sequential::Sequential(std::initializer_list<std::shared_ptr<Module>> modules) {
  for (const auto& module : modules) append(module);
}

void Sequential::append(std::shared_ptr<Module> module) {
  sequence_.push_back(register_module(std::to_string(sequence_.size()), std::move(module)));
}

Variable Sequential::forward(const Variable& x) {
  Variable y = x;
  for (const auto& module : sequence_) y = module->forward(y);
  return y;
}

}  // namespace lockstep::nn
