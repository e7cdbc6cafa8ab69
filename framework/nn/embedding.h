#pragma once

#include <cstdint>

#include "framework/nn/module.h"

namespace lockstep::nn {

struct EmbeddingOptions {
  DType dtype = DType::float32;
  Initializer weight_initializer = {};  // normal(0, 1), PyTorch's default, when empty
};

// A vector of `width` for each of `count` indices: int64 [...] to [..., width]. Parameter "weight"
// [count, width].
class Embedding final : public Module {
 public:
  // Throws UsageError when an extent is not positive.
  Embedding(Context& context, std::int64_t count, std::int64_t width,
            const EmbeddingOptions& options = {});

  Variable forward(const Variable& indices) override;

  const Variable& weight() const { return weight_; }

 private:
  Variable weight_;
};

}  // namespace lockstep::nn
