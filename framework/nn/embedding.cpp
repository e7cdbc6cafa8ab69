#include "framework/nn/embedding.h"

#include <fmt/core.h>

#include "framework/base/error.h"
#include "framework/nn/init.h"
#include "framework/ops/embedding.h"

namespace lockstep::nn {

Embedding::Embedding(Context& context, std::int64_t count, std::int64_t width,
                     const EmbeddingOptions& options) {
  if (count < 1 || width < 1) {
    throw UsageError(fmt::format(
        "embedding layer: {} vectors of width {}, expected positive extents", count, width));
  }
  weight_ = register_parameter(
      "weight", Tensor::empty(context, Shape{count, width}, options.dtype),
      options.weight_initializer ? options.weight_initializer : normal(0.0, 1.0));
}

Variable Embedding::forward(const Variable& indices) {
  return ops::embedding(weight_, indices.value());
}

}  // namespace lockstep::nn
