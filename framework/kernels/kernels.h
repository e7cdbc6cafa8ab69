// The numeric kernels, one interface for every kind of device.
//
// Common rules:
// - Outputs are allocated by the caller with the right shape and dtype; ops/ checks what a user can
//   get wrong, a kernel only what it relies on itself (UsageError).
// - Work is enqueued on the context's compute stream (which on the CPU runs at once).
// - float32 and float64 everywhere unless said otherwise. float16 is storage, served by copy()
//   alone; bfloat16 too, but for factors of a GPU's products, what prepares them, and working
//   copies.
// - `accumulate` false writes the output (which may be uninitialised memory), true adds to it.
// - No call but throw_noted_error() waits for a GPU, and what changes from step to step (an
//   optimizer's constants, the step of random draws, results) is in memory of the device and no
//   argument, so that the calls of a step can be captured into a graph and replayed.
// - Values that no kernel can use (an index that is no row, a target that is no class) are thrown
//   at once on the CPU. A GPU's kernels leave out what belongs to them and note the first; whoever
//   reads a result asks for it (throw_noted_error).
// - A result depends on shapes and values alone: never on the number of threads, addresses or
//   timing. (A GPU's products, which are cuBLAS's, also on how their operands are aligned.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "framework/base/random.h"
#include "framework/kernels/operations.h"
#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

// How an optimizer step takes its gradient: g = clamp(factor * grad, -limit, limit).
struct GradientUse {
  double limit = std::numeric_limits<double>::infinity();  // clipping by value
  // float64 [1], may be undefined: a factor that changes from step to step (clipping by norm, loss
  // scale), which the step reads when it runs.
  Tensor factor = {};
  // int32 [1], may be undefined: where it is not 0 when the step runs, the step does nothing.
  Tensor skip = {};
  // int32 [1], may be undefined: set to 1 where an element of grad is not finite, left alone
  // otherwise. Looking costs nothing where every element is read anyway. Such an element leaves its
  // parameter as it was, so that the gradients can be computed again to find whose it came from.
  Tensor nonfinite = {};
};

// What a cross-entropy over rows writes.
struct CrossEntropyResult {
  Tensor total;             // float64 [2]: the sum of the losses, and how many rows count
  bool accumulate = false;  // adds to `total`
  Tensor loss = {};         // may be undefined; one element of the logits' dtype: scale * the sum
  double scale = 1;         // of `loss`
  // May be undefined; the gradient of the *sum* with respect to the logits: softmax - target
  // distribution.
  Tensor grad = {};
};

// What the gradient of a linear layer's activation is computed from.
struct ActivationRecord {
  Activation activation = Activation::none;
  Tensor y = {};    // [m, out]: the layer's result; undefined where there is no activation
  Tensor pre = {};  // [m, out]: the value before it, where the gradient comes from the input
  // uint8 [m, bytes], which elements relu let through: a bit for each, rows padded to 128 bits, as
  // cublasLt stores and reads them. Undefined where no product will take it.
  Tensor mask = {};
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  // --- Memory
  virtual void fill(double value, const Tensor& out) const = 0;  // any dtype, any strides
  // out = x converted to out's dtype; x is broadcast to out's shape. Any dtypes, any strides.
  virtual void copy(const Tensor& x, const Tensor& out) const = 0;
  // out = x * factor + offset, with a factor and an offset for each channel: x uint8 or float32 and
  // out [rows, channels, width], factor and offset [channels] of out's dtype, all contiguous. What
  // a loader makes of stored features, bit for bit.
  virtual void normalize_channels(const Tensor& x, const Tensor& factor, const Tensor& offset,
                                  const Tensor& out) const = 0;
  // The bytes of a contiguous `out`, at most most_stored_bytes, which are taken before this
  // returns: for the few values that change from step to step.
  virtual void store(std::span<const std::byte> bytes, const Tensor& out) const = 0;

  // --- Values that no kernel can use
  // Throws what kernels of a GPU noted first, as the CPU's would have thrown it, and forgets it.
  // Waits for the compute stream. Does nothing on the CPU.
  virtual void throw_noted_error(Context& context) const = 0;
  // Where they note it, for who reads it later together with other results: int64
  // [NotedError::words] on the device, as noted_error.h says. Undefined on the CPU.
  virtual Tensor noted_error(Context& context) const = 0;

  // --- Elementwise; any strides, inputs broadcast to the output's shape
  virtual void unary(Unary op, const Tensor& x, const Tensor& out) const = 0;
  // grad_x (+)= grad_y * f'(x), given x and y = f(x). May alias grad_y when not accumulating.
  virtual void unary_backward(Unary op, const Tensor& x, const Tensor& y, const Tensor& grad_y,
                              const Tensor& grad_x, bool accumulate) const = 0;
  virtual void binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& out) const = 0;
  // out = alpha * x + beta * out; with beta == 0 `out` is not read.
  virtual void axpby(double alpha, const Tensor& x, double beta, const Tensor& out) const = 0;
  // out (+)= alpha * a * b, elementwise, summed over the axes in which `out` is broadcast against a
  // * b (as sum_to does). The gradient of a product without a temporary.
  virtual void multiply_sum_to(double alpha, const Tensor& a, const Tensor& b, const Tensor& out,
                               bool accumulate) const = 0;

  // --- Reductions
  // out (+)= alpha * x summed over every axis in which out's extent is 1 (out is aligned at the
  // last axis and may have fewer axes): the gradient of a broadcast, and sum and mean over axes.
  virtual void sum_to(double alpha, const Tensor& x, const Tensor& out, bool accumulate) const = 0;
  // Sum of squares of a contiguous range into `sum`, float64 [1], in a fixed order of blocks.
  virtual void sum_of_squares(const Tensor& x, const Tensor& sum) const = 0;
  // Sets `flag`, int32 [1], to 1 where a value of a contiguous range is not finite, and leaves it
  // alone otherwise.
  virtual void find_nonfinite(const Tensor& x, const Tensor& flag) const = 0;
  // Clipping by norm: with norm = scale * sqrt(the sum of `squares` in their order),
  // factor = scale * (norm > limit ? limit / norm : 1). Where the sum is not finite, sets `flag`,
  // int32 [1], to 1, and leaves it alone otherwise. squares float64 [n]; scale and factor float64
  // [1].
  virtual void clip_factor(const Tensor& squares, const Tensor& scale, double limit,
                           const Tensor& factor, const Tensor& flag) const = 0;

  // --- Digests
  // digests[i] = the digest (digest.h) of tensors[i], contiguous and of any dtype, with a seed of
  // its own: the same on every kind of device. int64, one for each tensor.
  virtual void digest(std::span<const Tensor> tensors, std::span<const std::uint64_t> seeds,
                      const Tensor& digests) const = 0;

  // --- Matrix products
  // In what products of float32 are computed in this context from now on: float32 at first. Throws
  // UsageError for another on the CPU.
  virtual void set_product_precision(Context& context, ProductPrecision precision) const = 0;
  virtual ProductPrecision product_precision(Context& context) const = 0;
  // On a GPU all of these take both factors in bfloat16, too, with a result of float32: what they
  // would make of float32 factors that are rounded first, from half the bytes.
  //
  // c (+)= a * b over the last two axes, leading axes broadcast. Any strides; operands without a
  // dense axis are copied on a GPU. On the CPU an element is one chain of multiply-adds along the
  // summed axis, so a row of c depends on that row of a alone, not on how many others are in the
  // batch; cuBLAS chooses by the shape.
  virtual void matmul(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) const = 0;
  // y[m, out] = activation(x[m, in] * w[out, in]^T + bias[out]); `bias` may be undefined. Returns
  // what the activation's gradient will be computed from where `keep` says that there will be one,
  // and an empty record otherwise.
  virtual ActivationRecord linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                  Activation activation, bool keep, const Tensor& y) const = 0;
  // One pass: grad_pre = grad_y * activation'(.) and grad_bias (+)= its column sums. `grad_bias`
  // may be undefined; grad_pre may alias grad_y. On a GPU grad_pre may be bfloat16 beside float32:
  // rounded for the products that it is a factor of (the sums are not).
  virtual void bias_activation_backward(const ActivationRecord& record, const Tensor& grad_y,
                                        const Tensor& grad_pre, const Tensor& grad_bias,
                                        bool accumulate_bias) const = 0;
  // Whether products of such factors take the gradients around them along (cublasLt's epilogues).
  // Where they do not, bias_activation_backward() does more in one pass than the two functions
  // below with a bias or an activation.
  virtual bool has_gradient_epilogues(DType factors) const = 0;
  // grad_w[out, in] (+)= grad_pre[m, out]^T * x[m, in] and, unless undefined, grad_bias[out] (+)=
  // the column sums of grad_pre, which is of the result's type then.
  virtual void linear_weight_gradient(const Tensor& grad_pre, const Tensor& x, const Tensor& grad_w,
                                      bool accumulate, const Tensor& grad_bias,
                                      bool accumulate_bias) const;
  // grad_x[m, in] (+)= grad_pre[m, out] * w[out, in]. With the record of the layer that gave x it
  // is multiplied by activation'(.) as well: the gradient before that layer's activation, which is
  // written, not added.
  virtual void linear_input_gradient(const Tensor& grad_pre, const Tensor& w,
                                     const ActivationRecord& below, const Tensor& grad_x,
                                     bool accumulate) const;

  // --- Rows of a table by index: embeddings. All operands contiguous; indices int64 of any shape,
  // whose elements are called positions in row-major order. The error of an index that is no row
  // is a UsageError naming the position, the index and the range.
  //
  // out[position] = table[indices[position]]: table [rows, width], out [indices..., width].
  virtual void gather_rows(const Tensor& table, const Tensor& indices, const Tensor& out) const = 0;
  // The positions of each row, once for all blocks of a gradient: those of row r are order[k] for k
  // from starts[r] to starts[r + 1] - 1, ascending. int64 starts [rows + 1] and order [positions].
  virtual void group_positions(const Tensor& indices, const Tensor& starts,
                               const Tensor& order) const = 0;
  // out[r] (+)= the sum of x[order[k]], k from starts[r] to starts[r + 1] - 1: x [positions,
  // width], out [rows, width]. One chain of additions in that order, so that slices of `starts` and
  // `out` give the bits of the whole.
  virtual void sum_row_groups(const Tensor& x, const Tensor& starts, const Tensor& order,
                              const Tensor& out, bool accumulate) const = 0;

  // --- Softmax family; over the last axis, contiguous rows
  virtual void softmax(const Tensor& x, const Tensor& y) const = 0;
  virtual void softmax_backward(const Tensor& y, const Tensor& grad_y, const Tensor& grad_x,
                                bool accumulate) const = 0;
  virtual void log_softmax(const Tensor& x, const Tensor& y) const = 0;
  virtual void log_softmax_backward(const Tensor& y, const Tensor& grad_y, const Tensor& grad_x,
                                    bool accumulate) const = 0;
  // Fused softmax and cross-entropy of logits [rows, classes] with int64 targets [rows]. Rows whose
  // target is `ignore_index` count for nothing. The error of a target that is no class is a
  // DataError naming row and value.
  virtual void cross_entropy(const Tensor& logits, const Tensor& targets,
                             const CrossEntropyOptions& options,
                             const CrossEntropyResult& result) const = 0;
  // correct (+)= how many rows have their largest logit (the first of equals) at the target;
  // ignored rows never do. float64 [1].
  virtual void count_correct(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index,
                             const Tensor& correct, bool accumulate) const = 0;

  // --- Batch normalisation of x [rows, features], contiguous, feature by feature
  // (Ioffe, Szegedy: "Batch normalization", ICML 2015). Everything else but y and the gradients of
  // x and y is [features], contiguous, of x's dtype. Sums over rows are double.
  //
  // Training: mean and inverse_deviation = 1 / sqrt(variance + epsilon) over the rows, with the
  // biased variance, taken around the mean (sum of squares minus square of sums would cancel);
  // y = (x - mean) * inverse_deviation * weight + bias. The running mean and variance move by
  // `momentum` of the way to the mean and the unbiased variance. At least two rows.
  virtual void batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                          double momentum, const Tensor& running_mean,
                          const Tensor& running_variance, const Tensor& mean,
                          const Tensor& inverse_deviation, const Tensor& y) const = 0;
  // The same with a mean and variance that are given; stores their inverse deviation. Any rows.
  virtual void batch_norm_inference(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                    double epsilon, const Tensor& mean, const Tensor& variance,
                                    const Tensor& inverse_deviation, const Tensor& y) const = 0;
  // Sums over the rows: grad_weight = sum grad_y * (x - mean) * inverse_deviation, grad_bias = sum
  // grad_y. Any rows.
  virtual void batch_norm_parameter_gradients(const Tensor& x, const Tensor& mean,
                                              const Tensor& inverse_deviation, const Tensor& grad_y,
                                              const Tensor& grad_weight,
                                              const Tensor& grad_bias) const = 0;
  // grad_x (+)= weight * inverse_deviation * (grad_y - grad_bias / rows
  //             - (x - mean) * inverse_deviation * grad_weight / rows), with the sums from above.
  // Both sums undefined: mean and deviation were given, so that only grad_y is left in the bracket.
  // grad_x may be grad_y when not accumulating.
  virtual void batch_norm_input_gradient(const Tensor& x, const Tensor& weight, const Tensor& mean,
                                         const Tensor& inverse_deviation, const Tensor& grad_y,
                                         const Tensor& grad_weight, const Tensor& grad_bias,
                                         const Tensor& grad_x, bool accumulate) const = 0;

  // --- Dropout: y (+)= x * mask / (1 - p). The mask of row i (first axis) is drawn at row
  // first_row + i of `stream`, so it does not depend on the sharding; the same call on the gradient
  // is the backward.
  virtual void dropout(const Tensor& x, double p, const base::RandomStream& stream,
                       std::int64_t first_row, const Tensor& y, bool accumulate) const = 0;
  // Who replays a graph gives dropout kernels in it the step of their draws by this, before capture
  // and before each replay. A call of dropout() does so itself where it finds another step.
  virtual void set_random_step(Context& context, std::uint64_t step) const = 0;

  // --- Optimizer steps: one pass over flat ranges of equal length. `constants` is what follows
  // from the step's options, in the parameter's dtype (stored_constants.h), read when the step
  // runs. `working`, bfloat16 and maybe undefined, gets the parameters of float32 as they are
  // afterwards, rounded: what products read, while the parameters are the master copy, which small
  // steps are not lost on (Micikevicius et al.: "Mixed precision training", ICLR 2018).
  //
  // `momentum` may be undefined; `nesterov` needs it.
  virtual void sgd_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                        const Tensor& momentum, bool nesterov, const Tensor& constants,
                        const GradientUse& use) const = 0;
  virtual void adam_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                         const Tensor& first_moment, const Tensor& second_moment,
                         const Tensor& constants, const GradientUse& use) const = 0;
};

// The kernels of the context's kind of device. Stateless; valid for ever.
const Kernels& kernels_for(const Context& context);

const Kernels& cpu_kernels();   // kernels/cpu
const Kernels& cuda_kernels();  // kernels/cuda; UsageError in a build without a toolkit
// Which set of kernels this processor runs. Results have the same bits wherever this and the build
// are the same; it is recorded with each run.
std::string cpu_kernels_description();

}  // namespace lockstep::kernels
