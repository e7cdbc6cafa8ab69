// How fast the kernels are, beside what the device can do at most, measured here: on a CPU a loop
// of multiply-adds in registers for those that compute, on a GPU cuBLAS's largest product; and for
// those that move data a copy of memory.
//
// `floor us` is what the kernel's work takes at that peak, `share` the part of the peak that it
// reaches. Kernels on data that fits into a cache may move it faster than the copy of memory; their
// share is then above 1.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/bench.h"
#include "benchmarks/command_line.h"
#include "benchmarks/fma_peak.h"
#include "benchmarks/kernel_sizes.h"
#include "benchmarks/kernel_timer.h"
#include "comm/memory/group.h"
#include "comm/ring/ring.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/device/cuda/cuda_context.h"
#include "framework/kernels/kernels.h"
#include "framework/kernels/product_factor.h"
#include "framework/kernels/product_precision.h"
#include "framework/kernels/stored_constants.h"
#include "framework/nn/linear.h"
#include "train/parallel/hooks/hooks.h"

namespace lockstep::benchmarks {
namespace {

struct Options {
  double seconds = 0.2;
  int threads = 1;
  std::string device = "cpu", products = "float32", sizes = "full", only, json;
};

void describe(CLI::App& app, Options& options) {
  app.add_option("--device", options.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--products", options.products, "compute.products, on a GPU")
      ->check(CLI::IsMember(kernels::product_precision_names()));
  app.add_option("--seconds", options.seconds, "for each kernel")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "of the CPU")->check(CLI::Range(1, 1024));
  app.add_option("--sizes", options.sizes, "tiny: only to see that all of them run")
      ->check(CLI::IsMember({"full", "tiny"}));
  app.add_option("--only", options.only, "kernels whose name has this text");
  app.add_option("--json", options.json, "write the rows to this file");
}

std::unique_ptr<Context> make_context(const Options& options) {
  if (options.device == "cpu") return device::make_cpu_context(options.threads);
  return device::make_cuda_context(0, 0);
}

KernelSizes sizes_of(const Options& options) {
  if (options.sizes == "tiny") return tiny_sizes();
  return options.device == "cpu" ? cpu_sizes() : gpu_sizes();
}

class Benchmark {
 public:
  explicit Benchmark(const Options& options)
      : options_(options),
        sizes_(sizes_of(options)),
        context_(make_context(options)),
        kernels_(kernels::kernels_for(*context_)),
        timer_(*context_, options.seconds, options.sizes == "tiny" ? 2 : 20) {
    kernels_.set_product_precision(*context_,
                                   kernels::product_precision_from_name(options.products));
    peak_gflops_ = measure_peak();
    copy_gbs_ = measure_copy();
  }

  int run() {
    fmt::print("{}; peak {:.1f} GFLOP/s, copy of {} MiB {:.1f} GB/s (read + write)\n\n", describe(),
               peak_gflops_, sizes_.copied * 4 >> 20, copy_gbs_);
    products();
    layers();
    elementwise();
    reductions();
    losses();
    batch_norm();
    embeddings();
    optimizers();
    hooks();
    report_.print();
    if (!options_.json.empty()) {
      write_file(options_.json,
                 fmt::format("{{\"kernels\": \"{}\", \"device\": \"{}\", \"threads\": {}, "
                             "\"products\": \"{}\", \"peak_gflops\": {}, \"copy_gbs\": {}, "
                             "\"rows\": {}}}\n",
                             describe(), options_.device, options_.threads, options_.products,
                             peak_gflops_, copy_gbs_, report_.json()));
    }
    return 0;
  }

 private:
  bool on_gpu() const { return options_.device == "cuda"; }

  std::string describe() const {
    if (on_gpu())
      return fmt::format("{}, products {}", device::describe_cuda_device(0).name,
                         options_.products);
    return fmt::format("{}, {} thread(s)", kernels::cpu_kernels_description(), options_.threads);
  }

  double measure_peak() {
    if (!on_gpu()) return measure_fma_peak() * 1e-9 * options_.threads;
    const auto& [m, k, n] = sizes_.products.front();
    const Tensor a = tensor({m, k}), b = tensor({k, n}), c = empty({m, n});
    const Timing timing = timer_([&] { kernels_.matmul(a, b, c, false); });
    return 2.0 * static_cast<double>(m * k * n) / timing.min * 1e-9;
  }

  double measure_copy() {
    const Tensor from = tensor({sizes_.copied}), to = empty({sizes_.copied});
    const Timing copy = timer_(
        [&] { context_->copy(to.data(), from.data(), from.bytes(), context_->compute_stream()); });
    return 2.0 * static_cast<double>(from.bytes()) / copy.median * 1e-9;
  }

  Tensor empty(const Shape& shape, DType dtype = DType::float32) {
    return Tensor::empty(*context_, shape, dtype);
  }
  // Of numbers in [-1, 1), the same few over and over where there are many.
  Tensor tensor(const Shape& shape) {
    const base::RandomStream stream(1, "benchmark", ++tensors_);
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    constexpr std::size_t drawn = 1 << 20;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = i < drawn ? 2 * stream.uniform(i) - 1 : values[i - drawn];
    return Tensor::from<float>(*context_, values, shape);
  }

  void measure(const std::string& name, const std::string& shape, double work, double peak,
               const char* unit, const std::function<void()>& body) {
    if (!is_wanted(name, shape)) return;
    add_row(name, shape, work, peak, unit, timer_(body));
  }
  bool is_wanted(const std::string& name, const std::string& shape) const {
    return (name + " " + shape).find(options_.only) != std::string::npos;
  }
  void add_row(const std::string& name, const std::string& shape, double work, double peak,
               const char* unit, const Timing& timing) {
    const double rate = work / timing.median * 1e-9;
    report_.add({name, shape, timing.median * 1e6, timing.min * 1e6, work * 1e-6,
                 work / peak * 1e-3, rate, std::string(unit), rate / peak,
                 std::int64_t{timing.repetitions}});
  }
  void flops(const std::string& name, const std::string& shape, double flop,
             const std::function<void()>& body) {
    measure(name, shape, flop, peak_gflops_, "GFLOP/s", body);
  }
  // `passes` over `bytes`, read or written.
  void bytes(const std::string& name, const std::string& shape, double passes, std::size_t bytes,
             const std::function<void()>& body) {
    measure(name, shape, passes * static_cast<double>(bytes), copy_gbs_, "GB/s", body);
  }

  // As layers hand it to a product.
  Tensor factor(const Shape& shape) { return kernels::product_factor(tensor(shape)); }

  void product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t k, std::int64_t n) {
    const Tensor a = transpose_a ? factor({k, m}).transpose(0, 1) : factor({m, k});
    const Tensor b = transpose_b ? factor({n, k}).transpose(0, 1) : factor({k, n});
    const Tensor c = empty({m, n});
    flops(fmt::format("matmul {}{}", transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N'),
          fmt::format("{} x {} x {}", m, k, n), 2.0 * static_cast<double>(m * k * n),
          [&] { kernels_.matmul(a, b, c, false); });
  }

  // Forward, weight gradient and input gradient of linear layers, and products by themselves.
  void products() {
    for (const auto& [batch, in, out] : sizes_.layers) {
      product(false, true, batch, in, out);
      product(true, false, out, batch, in);
      product(false, false, batch, out, in);
    }
    for (const auto& [m, k, n] : sizes_.products) product(false, false, m, k, n);
  }

  void layers() {
    const auto& [rows, in, out] = sizes_.linear;
    const std::pair<Activation, const char*> activations[] = {
        {Activation::none, ""},
        {Activation::relu, ", relu"},
        {Activation::gelu, ", gelu"},
        {Activation::gelu_tanh, ", gelu_tanh"},
        {Activation::tanh, ", tanh"}};
    const std::string shape = fmt::format("{} x {}", rows, out);
    for (const auto& [activation, words] : activations) {
      const std::string name = words;
      const Tensor x = factor({rows, in}), w = factor({out, in}), bias = tensor({out}),
                   y = empty({rows, out});
      flops("linear, bias" + name, fmt::format("{} x {} x {}", rows, in, out),
            2.0 * static_cast<double>(rows * in * out),
            [&, f = activation] { kernels_.linear(x, w, bias, f, false, y); });
      const Tensor pre = tensor({rows, out}), grad = tensor({rows, out}),
                   grad_pre = empty({rows, out});
      bytes("its bias and activation backward" + name, shape, 3, y.bytes(), [&, f = activation] {
        kernels_.bias_activation_backward({f, y, pre}, grad, grad_pre, bias, false);
      });
    }
    gradients_of_layers();
  }

  // With what their products take along: beside those of matmul they show what that costs, beside
  // the pass above what it saves.
  void gradients_of_layers() {
    const auto& [rows, in, out] = sizes_.linear;
    const Tensor x = factor({rows, in}), w = factor({out, in}), grad = factor({rows, out}),
                 grad_w = empty({out, in}), bias = empty({out}), grad_x = empty({rows, in});
    if (!kernels_.has_gradient_epilogues(x.dtype())) return;
    const double flop = 2.0 * static_cast<double>(rows * in * out);
    const std::string shape = fmt::format("{} x {} x {}", rows, in, out);
    flops("weight gradient, bias", shape, flop,
          [&] { kernels_.linear_weight_gradient(grad, x, grad_w, false, bias, false); });
    for (const Activation activation : {Activation::relu, Activation::gelu_tanh}) {
      const Tensor below = empty({rows, in});
      const auto record = kernels_.linear(tensor({rows, 64}), tensor({in, 64}), tensor({in}),
                                          activation, true, below);
      flops(activation == Activation::relu ? "input gradient, relu" : "input gradient, gelu_tanh",
            shape, flop, [&] { kernels_.linear_input_gradient(grad, w, record, grad_x, false); });
    }
  }

  void elementwise() {
    using kernels::Unary;
    for (const std::int64_t count : sizes_.ranges) {
      const Tensor x = tensor({count}), y = tensor({count}), z = tensor({count});
      const std::string shape = fmt::format("{}", count);
      bytes("copy", shape, 2, x.bytes(), [&] { kernels_.copy(x, y); });
      bytes("add", shape, 3, x.bytes(), [&] { kernels_.binary(kernels::Binary::add, x, y, z); });
      bytes("axpby", shape, 3, x.bytes(), [&] { kernels_.axpby(0.5, x, 0.5, y); });
      bytes("relu", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::relu, x, y); });
      bytes("gelu", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::gelu, x, y); });
      bytes("gelu backward", shape, 3, x.bytes(),
            [&] { kernels_.unary_backward(Unary::gelu, x, y, z, y, false); });
      bytes("gelu_tanh", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::gelu_tanh, x, y); });
      bytes("gelu_tanh backward", shape, 3, x.bytes(),
            [&] { kernels_.unary_backward(Unary::gelu_tanh, x, y, z, y, false); });
      bytes("tanh", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::tanh, x, y); });
      bytes("sigmoid", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::sigmoid, x, y); });
      bytes("exp", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::exp, x, y); });
      bytes("log", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::log, x, y); });
      bytes("sqrt", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::sqrt, x, y); });
      const Tensor half = empty({count}, DType::bfloat16);
      bytes("to bfloat16", shape, 1.5, x.bytes(), [&] { kernels_.copy(x, half); });
      bytes("from bfloat16", shape, 1.5, x.bytes(), [&] { kernels_.copy(half, x); });
    }
    const std::int64_t side = sizes_.side;
    const std::string square = fmt::format("{} x {}", side, side);
    const Tensor x = tensor({side, side}), y = tensor({side, side}), row = tensor({side}),
                 column = tensor({side, 1});
    bytes("copy transposed", square, 2, x.bytes(), [&] { kernels_.copy(x.transpose(0, 1), y); });
    bytes("add a row", square, 2, x.bytes(),
          [&] { kernels_.binary(kernels::Binary::add, x, row, y); });
    bytes("add a column", square, 2, x.bytes(),
          [&] { kernels_.binary(kernels::Binary::add, x, column, y); });
    const base::RandomStream stream(1, "dropout");
    bytes("dropout", square, 2, x.bytes(), [&] { kernels_.dropout(x, 0.1, stream, 0, y, false); });
  }

  void reductions() {
    const std::int64_t side = sizes_.side;
    const std::string square = fmt::format("{} x {}", side, side);
    const Tensor x = tensor({side, side}), y = tensor({side, side});
    const Tensor row = tensor({side}), column = tensor({side, 1}), one = tensor({});
    const Tensor sum = empty({1}, DType::float64), flag = empty({1}, DType::int32);
    bytes("sum down columns", square, 1, x.bytes(), [&] { kernels_.sum_to(1, x, row, false); });
    bytes("sum along rows", square, 1, x.bytes(), [&] { kernels_.sum_to(1, x, column, false); });
    bytes("sum of all", square, 1, x.bytes(), [&] { kernels_.sum_to(1, x, one, false); });
    bytes("sum of products", square, 2, x.bytes(),
          [&] { kernels_.multiply_sum_to(1, x, y, row, false); });
    bytes("sum of squares", square, 1, x.bytes(), [&] { kernels_.sum_of_squares(x, sum); });
    const Tensor digest = empty({1}, DType::int64);
    const std::uint64_t seed = 7;
    bytes("digest", square, 1, x.bytes(), [&] { kernels_.digest({&x, 1}, {&seed, 1}, digest); });
    bytes("find values that are not finite", square, 1, x.bytes(),
          [&] { kernels_.find_nonfinite(x, flag); });
  }

  void losses() {
    for (const auto& [rows, classes] : sizes_.logits) {
      const Tensor logits = tensor({rows, classes}), grad = tensor({rows, classes}),
                   y = tensor({rows, classes});
      const Tensor targets = empty({rows}, DType::int64);
      kernels_.fill(3, targets);
      const Tensor total = empty({2}, DType::float64);
      const std::string shape = fmt::format("{} x {}", rows, classes);
      bytes("cross entropy with gradient", shape, 2, grad.bytes(),
            [&] { kernels_.cross_entropy(logits, targets, {}, {.total = total, .grad = grad}); });
      bytes("softmax", shape, 2, grad.bytes(), [&] { kernels_.softmax(logits, y); });
      bytes("softmax backward", shape, 3, grad.bytes(),
            [&] { kernels_.softmax_backward(y, logits, grad, false); });
      bytes("log softmax", shape, 2, grad.bytes(), [&] { kernels_.log_softmax(logits, y); });
      bytes("log softmax backward", shape, 3, grad.bytes(),
            [&] { kernels_.log_softmax_backward(y, logits, grad, false); });
      const Tensor correct = empty({1}, DType::float64);
      bytes("count correct", shape, 1, grad.bytes(),
            [&] { kernels_.count_correct(logits, targets, -100, correct, false); });
    }
  }

  void batch_norm() {
    const std::int64_t side = sizes_.side;
    const std::string square = fmt::format("{} x {}", side, side);
    const Tensor x = tensor({side, side}), y = empty({side, side}), grad = tensor({side, side});
    const Tensor weight = tensor({side}), bias = tensor({side}), running_mean = tensor({side}),
                 running_variance = tensor({side}), mean = tensor({side}),
                 deviation = tensor({side}), grad_weight = tensor({side}),
                 grad_bias = tensor({side});
    bytes("batch norm", square, 4, x.bytes(), [&] {
      kernels_.batch_norm(x, weight, bias, 1e-5, 0.1, running_mean, running_variance, mean,
                          deviation, y);
    });
    bytes("its parameters' gradients", square, 2, x.bytes(), [&] {
      kernels_.batch_norm_parameter_gradients(x, mean, deviation, grad, grad_weight, grad_bias);
    });
    bytes("its input's gradient", square, 3, x.bytes(), [&] {
      kernels_.batch_norm_input_gradient(x, weight, mean, deviation, grad, grad_weight, grad_bias,
                                         y, false);
    });
  }

  void embeddings() {
    const auto& [rows, width] = sizes_.table;
    const Tensor table = tensor({rows, width}), out = tensor({sizes_.positions, width});
    std::vector<std::int64_t> drawn;
    const base::RandomStream stream(1, "indices");
    for (std::int64_t i = 0; i < sizes_.positions; ++i)
      drawn.push_back(static_cast<std::int64_t>(
          stream.below(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(i))));
    const Tensor indices = Tensor::from<std::int64_t>(*context_, drawn, {sizes_.positions}),
                 starts = empty({rows + 1}, DType::int64),
                 order = empty({sizes_.positions}, DType::int64);
    const std::string shape = fmt::format("{} of {} x {}", sizes_.positions, rows, width);
    bytes("gather rows", shape, 2, out.bytes(), [&] { kernels_.gather_rows(table, indices, out); });
    bytes("group positions", shape, 1, indices.bytes() + starts.bytes() + order.bytes(),
          [&] { kernels_.group_positions(indices, starts, order); });
    bytes("sum row groups", shape, 1, out.bytes() + table.bytes(),
          [&] { kernels_.sum_row_groups(out, starts, order, table, false); });
  }

  void optimizers() {
    for (const std::int64_t count : sizes_.parameters) {
      const Tensor p = tensor({count}), g = tensor({count}), m = tensor({count}),
                   v = tensor({count});
      kernels_.unary(kernels::Unary::square, v, v);
      const std::string shape = fmt::format("{}", count);
      const Tensor sgd = kernels::make_sgd_constants(p), adam = kernels::make_adam_constants(p);
      kernels::store_constants(kernels::SgdOptions{.lr = 1e-9, .momentum = 0.9}, sgd);
      kernels::store_constants(kernels::AdamOptions{.lr = 1e-9}, adam);
      bytes("sgd", shape, 3, p.bytes(), [&] { kernels_.sgd_step(p, {}, g, {}, false, sgd, {}); });
      bytes("sgd with momentum", shape, 5, p.bytes(),
            [&] { kernels_.sgd_step(p, {}, g, m, false, sgd, {}); });
      bytes("adam", shape, 7, p.bytes(), [&] { kernels_.adam_step(p, {}, g, m, v, adam, {}); });
      const Tensor working = Tensor::empty(*context_, p.shape(), DType::bfloat16);
      bytes("adam with a working copy", shape, 7.5, p.bytes(),
            [&] { kernels_.adam_step(p, working, g, m, v, adam, {}); });
    }
  }

  // What a communication hook does to a bucket of one weight, for one worker, whose collectives
  // have nothing to move. Launched call by call, as in training.
  void hooks() {
    std::unique_ptr<comm::Group> group = std::move(comm::make_thread_groups(1).front());
    const auto communicator = on_gpu() ? comm::make_cuda_ring_communicator(std::move(group), 0, {})
                                       : comm::make_ring_communicator(std::move(group), {});
    nn::Linear linear(*context_, sizes_.side, sizes_.side, {.bias = false});
    nn::ParameterArena arena(*context_, linear, {0});
    const Tensor gradients = arena.segments().front().gradients;
    kernels_.copy(tensor({gradients.count()}), gradients);
    const comm::BucketPlan plan{{{.begin = 0, .end = gradients.count()}}};
    // Passes over the gradients; the residual, of the same size, among them.
    for (const auto& [name, passes] :
         {std::pair{"bf16", 3.0}, {"fp16", 4.0}, {"top_k", 8.0}, {"power_sgd", 8.0}}) {
      const std::string shape = fmt::format("{} x {}", sizes_.side, sizes_.side);
      const std::string title = std::string("hook ") + name;
      if (!is_wanted(title, shape)) continue;
      const auto hook = train::make_hook(name, {.power_sgd_start = 1})(*communicator, arena, plan);
      hook->begin({});
      const auto reduce = [&] {
        hook->reduce(0, {gradients.data(), gradients.count(), gradients.dtype()},
                     context_->compute_stream())
            .work.wait();
      };
      reduce();
      add_row(title, shape, passes * static_cast<double>(gradients.bytes()), copy_gbs_, "GB/s",
              time_repeated(reduce, options_.seconds));
    }
  }

  Options options_;
  KernelSizes sizes_;
  std::unique_ptr<Context> context_;
  const kernels::Kernels& kernels_;
  KernelTimer timer_;
  double peak_gflops_ = 0, copy_gbs_ = 0;
  std::uint64_t tensors_ = 0;
  Report report_{{"kernel", "shape", "us", "min us", "MB or MFLOP", "floor us", "rate", "unit",
                  "share", "runs"}};
};

}  // namespace
}  // namespace lockstep::benchmarks

int main(int argc, char** argv) {
  using namespace lockstep::benchmarks;
  lockstep::device::prepare_cuda_process();
  CLI::App app("Times the kernels of a CPU or a GPU.");
  Options options;
  describe(app, options);
  if (const auto code = parse(app, argc, argv)) return *code;
  try {
    return Benchmark(options).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernels: {}\n", error.what());
    return 2;
  }
}
