// The kernels of GPUs. Each family has its checks and plans in a .cpp file and its kernels, behind
// typed launchers, in a .cu file of the same name.
//
// Work goes to the context's compute stream, and nothing waits for it but throw_noted_error().
// Results do not depend on how many blocks there are or when they run: each output is computed by
// one thread, warp or block, in an order fixed by shapes, and sums that are cut into parts add them
// in order. Products are cuBLAS's, which repeat from run to run (cublas.h).
#pragma once

#include "framework/kernels/kernels.h"

namespace lockstep::kernels::cuda {

class CudaKernels final : public Kernels {
 public:
  void fill(double value, const Tensor& out) const override;
  void copy(const Tensor& x, const Tensor& out) const override;
  void normalize_channels(const Tensor& x, const Tensor& factor, const Tensor& offset,
                          const Tensor& out) const override;
  void store(std::span<const std::byte> bytes, const Tensor& out) const override;

  void throw_noted_error(Context& context) const override;
  Tensor noted_error(Context& context) const override;

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
  bool has_gradient_epilogues(DType factors) const override { return factors == DType::float32; }
  void linear_weight_gradient(const Tensor& grad_pre, const Tensor& x, const Tensor& grad_w,
                              bool accumulate, const Tensor& grad_bias,
                              bool accumulate_bias) const override;
  void linear_input_gradient(const Tensor& grad_pre, const Tensor& w, const ActivationRecord& below,
                             const Tensor& grad_x, bool accumulate) const override;

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
  void set_random_step(Context& context, std::uint64_t step) const override;

  void sgd_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                const Tensor& momentum, bool nesterov, const Tensor& constants,
                const GradientUse& use) const override;
  void adam_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                 const Tensor& first_moment, const Tensor& second_moment, const Tensor& constants,
                 const GradientUse& use) const override;
};

}  // namespace lockstep::kernels::cuda
