#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <vector>

#include "framework/nn/module.h"

namespace lockstep::nn {

// Modules one after the other, named "0", "1", ...; the identity when empty.
class Sequential final : public Module {
 public:
  Sequential() = default;
  Sequential(std::initializer_list<std::shared_ptr<Module>> modules);

  void append(std::shared_ptr<Module> module);
  std::size_t size() const { return sequence_.size(); }
  Module& operator[](std::size_t i) const { return *sequence_[i]; }

  Variable forward(const Variable& x) override;

 private:
  std::vector<std::shared_ptr<Module>> sequence_;
};

}  // namespace lockstep::nn
