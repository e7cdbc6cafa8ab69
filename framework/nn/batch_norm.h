#pragma once

#include "framework/nn/module.h"
#include "framework/ops/batch_norm.h"

namespace lockstep::nn {

struct BatchNormOptions {
  double momentum = 0.1;  // share of a batch's statistics that the running ones take on
  double epsilon = 1e-5;
  DType dtype = DType::float32;
};

// Batch normalisation of x [rows, features] (Ioffe, Szegedy: "Batch normalization", ICML 2015),
// with PyTorch's semantics: in training by the statistics of the rows this rank was given, in
// evaluation by the running ones. Parameters "weight" (ones) and "bias" (zeros), buffers
// "running_mean" (zeros) and "running_var" (ones), all [features].
//
// In training each rank normalises by its own shard, so the result depends on how batches are
// sharded, and every shard needs two rows or none.
class BatchNorm1d final : public Module {
 public:
  // Throws UsageError when an option is out of range.
  BatchNorm1d(Context& context, std::int64_t features, const BatchNormOptions& options = {});

  Variable forward(const Variable& x) override;

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }
  const Tensor& running_mean() const { return running_mean_; }
  const Tensor& running_var() const { return running_var_; }

 private:
  ops::BatchNormOptions options_;
  Variable weight_, bias_;
  Tensor running_mean_, running_var_;
};

}  // namespace lockstep::nn
