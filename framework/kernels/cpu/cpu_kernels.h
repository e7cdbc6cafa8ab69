// The CPU's kernels. Each family of member functions lives in a file of its own:
// memory, normalize_channels, elementwise, reduce, matmul, linear, embedding, softmax,
// cross_entropy, batch_norm, dropout, optimizer.
//
// How they stay independent of the number of threads: a loop is cut into blocks by its shape alone
// (parallel.h); elements of different blocks do not meet, or meet in the order of the blocks.
#pragma once

#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

class CpuKernels final : public Kernels {
 public:
  void fill(double value, const Tensor& out) const override;
  void copy(const Tensor& x, const Tensor& out) const override;
  void normalize_channels(const Tensor& x, const Tensor& factor, const Tensor& offset,
                          const Tensor& out) const override;
  void store(std::span<const std::byte> bytes, const Tensor& out) const override;

  void throw_noted_error(Context& /*context*/) const override {}
  Tensor noted_error(Context& /*context*/) const override { return {}; }

  void unary(Unary op, const Tensor& x, const Tensor& out) const override;
  void unary_backward(Unary op, const Tensor& x, const Tensor& y, const Tensor& grad_y,
                      const Tensor& grad_x, bool accumulate) const override;
  void binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& out) const override;
  void axpby(double alpha, const Tensor& x, double beta, const Tensor& out) const override;
  void multiply_sum_to(double alpha, const Tensor& a, const Tensor& b, const Tensor& out,
                       bool accumulate) const override;

  void sum_to(double alpha, const Tensor& x, const Tensor& out, bool accumulate) const override;
  void sum_of_squares(const Tensor& x, const Tensor& sum) const override;
  void find_nonfinite(const Tensor& x, const Tensor& flag) const override;
  void clip_factor(const Tensor& squares, const Tensor& scale, double limit, const Tensor& factor,
                   const Tensor& flag) const override;

  void digest(std::span<const Tensor> tensors, std::span<const std::uint64_t> seeds,
              const Tensor& digests) const override;

  void set_product_precision(Context& context, ProductPrecision precision) const override;
  ProductPrecision product_precision(Context& context) const override;
  void matmul(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) const override;
  ActivationRecord linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                          Activation activation, bool keep, const Tensor& y) const override;
  void bias_activation_backward(const ActivationRecord& record, const Tensor& grad_y,
                                const Tensor& grad_pre, const Tensor& grad_bias,
                                bool accumulate_bias) const override;
  bool has_gradient_epilogues(DType /*factors*/) const override { return false; }

  void gather_rows(const Tensor& table, const Tensor& indices, const Tensor& out) const override;
  void group_positions(const Tensor& indices, const Tensor& starts,
                       const Tensor& order) const override;
  void sum_row_groups(const Tensor& x, const Tensor& starts, const Tensor& order, const Tensor& out,
                      bool accumulate) const override;

  void softmax(const Tensor& x, const Tensor& y) const override;
  void softmax_backward(const Tensor& y, const Tensor& grad_y, const Tensor& grad_x,
                        bool accumulate) const override;
  void log_softmax(const Tensor& x, const Tensor& y) const override;
  void log_softmax_backward(const Tensor& y, const Tensor& grad_y, const Tensor& grad_x,
                            bool accumulate) const override;
  void cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options,
                     const CrossEntropyResult& result) const override;
  void count_correct(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index,
                     const Tensor& correct, bool accumulate) const override;

  void batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                  double momentum, const Tensor& running_mean, const Tensor& running_variance,
                  const Tensor& mean, const Tensor& inverse_deviation,
                  const Tensor& y) const override;
  void batch_norm_inference(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            double epsilon, const Tensor& mean, const Tensor& variance,
                            const Tensor& inverse_deviation, const Tensor& y) const override;
  void batch_norm_parameter_gradients(const Tensor& x, const Tensor& mean,
                                      const Tensor& inverse_deviation, const Tensor& grad_y,
                                      const Tensor& grad_weight,
                                      const Tensor& grad_bias) const override;
  void batch_norm_input_gradient(const Tensor& x, const Tensor& weight, const Tensor& mean,
                                 const Tensor& inverse_deviation, const Tensor& grad_y,
                                 const Tensor& grad_weight, const Tensor& grad_bias,
                                 const Tensor& grad_x, bool accumulate) const override;

  void dropout(const Tensor& x, double p, const base::RandomStream& stream, std::int64_t first_row,
               const Tensor& y, bool accumulate) const override;
  void set_random_step(Context& /*context*/, std::uint64_t /*step*/) const override {}

  void sgd_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                const Tensor& momentum, bool nesterov, const Tensor& constants,
                const GradientUse& use) const override;
  void adam_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                 const Tensor& first_moment, const Tensor& second_moment, const Tensor& constants,
                 const GradientUse& use) const override;
};

}  // namespace lockstep::kernels
