// How fast the CPU's kernels are, beside what this machine can do at most: a loop of multiply-adds
// in registers for those that compute, and a copy of memory for those that move it, both measured
// here.
//
// `share` is the rate as a part of that peak. Kernels on data that fits into a cache may move it
// faster than the copy of memory; their share is then above 1.
#include <CLI/CLI.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/bench.h"
#include "benchmarks/fma_peak.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/device/thread_pool.h"
#include "framework/kernels/kernels.h"
#include "framework/kernels/stored_constants.h"

namespace lockstep::benchmarks {
namespace {

struct Options {
  double seconds = 0.2;
  int threads = 1;
  std::string only, json;
};

void describe(CLI::App& app, Options& options) {
  app.add_option("--seconds", options.seconds, "for each kernel")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  app.add_option("--only", options.only, "kernels whose name has this text");
  app.add_option("--json", options.json, "write the rows to this file");
}

class Benchmark {
 public:
  explicit Benchmark(const Options& options)
      : options_(options),
        context_(device::make_cpu_context(options.threads)),
        kernels_(kernels::kernels_for(*context_)) {
    peak_gflops_ = measure_fma_peak() * 1e-9 * options.threads;
    const Tensor from = tensor({1 << 24}), to = tensor({1 << 24});
    const Timing copy = time_repeated([&] { kernels_.copy(from, to); }, options.seconds);
    copy_gbs_ = 2.0 * static_cast<double>(from.bytes()) / copy.median * 1e-9;
  }

  int run() {
    fmt::print(
        "{}, {} thread(s); peak {:.1f} GFLOP/s, copy of 64 MiB {:.1f} GB/s (read + write)\n\n",
        kernels::cpu_kernels_description(), options_.threads, peak_gflops_, copy_gbs_);
    products();
    layers();
    elementwise();
    reductions();
    losses();
    optimizers();
    report_.print();
    if (!options_.json.empty()) {
      write_file(options_.json,
                 fmt::format("{{\"kernels\": \"{}\", \"threads\": {}, \"peak_gflops\": {}, "
                             "\"copy_gbs\": {}, \"rows\": {}}}\n",
                             kernels::cpu_kernels_description(), options_.threads, peak_gflops_,
                             copy_gbs_, report_.json()));
    }
    return 0;
  }

 private:
  Tensor tensor(const Shape& shape) {
    const Tensor t = Tensor::empty(*context_, shape);
    const base::RandomStream stream(1, "benchmark", ++tensors_);
    std::uint64_t i = 0;
    for (float& v : t.elements<float>()) v = 2 * stream.uniform(i++) - 1;
    return t;
  }

  void measure(const std::string& name, const std::string& shape, double work, double peak,
               const char* unit, const std::function<void()>& body) {
    if ((name + " " + shape).find(options_.only) == std::string::npos) return;
    const Timing timing = time_repeated(body, options_.seconds);
    const double rate = work / timing.median * 1e-9;
    report_.add({name, shape, timing.median * 1e6, timing.min * 1e6, rate, std::string(unit),
                 rate / peak, std::int64_t{timing.repetitions}});
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

  void product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t k, std::int64_t n) {
    const Tensor a = transpose_a ? tensor({k, m}).transpose(0, 1) : tensor({m, k});
    const Tensor b = transpose_b ? tensor({n, k}).transpose(0, 1) : tensor({k, n});
    const Tensor c = Tensor::empty(*context_, {m, n});
    flops(fmt::format("matmul {}{}", transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N'),
          fmt::format("{} x {} x {}", m, k, n), 2.0 * static_cast<double>(m * k * n),
          [&] { kernels_.matmul(a, b, c, false); });
  }

  // Forward, weight gradient and input gradient of the layers of an MLP.
  void products() {
    for (const std::int64_t batch : {256, 32}) {
      for (const auto& [in, out] :
           {std::pair<std::int64_t, std::int64_t>{784, 512}, {512, 256}, {256, 10}}) {
        product(false, true, batch, in, out);
        product(true, false, out, batch, in);
        product(false, false, batch, out, in);
      }
    }
    for (const auto& [in, out] : {std::pair<std::int64_t, std::int64_t>{784, 2048}, {2048, 2048}}) {
      product(false, true, 512, in, out);
      product(true, false, out, 512, in);
      product(false, false, 512, out, in);
    }
    product(false, true, 64, 2048, 2048);
    product(true, false, 2048, 64, 2048);
    product(false, false, 64, 2048, 2048);
    product(false, false, 1024, 1024, 1024);
  }

  void layers() {
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::gelu, Activation::tanh}) {
      const std::string name = activation == Activation::none   ? ""
                               : activation == Activation::relu ? ", relu"
                               : activation == Activation::gelu ? ", gelu"
                                                                : ", tanh";
      const Tensor x = tensor({256, 784}), w = tensor({512, 784}), bias = tensor({512}),
                   y = tensor({256, 512});
      flops("linear, bias" + name, "256 x 784 x 512", 2.0 * 256 * 784 * 512,
            [&] { kernels_.linear(x, w, bias, activation, {}, y); });
      const Tensor pre = tensor({256, 512}), grad = tensor({256, 512}),
                   grad_pre = tensor({256, 512});
      bytes("its bias and activation backward" + name, "256 x 512", 3, y.bytes(), [&] {
        kernels_.bias_activation_backward(activation, pre, y, grad, grad_pre, bias, false);
      });
    }
  }

  void elementwise() {
    using kernels::Unary;
    for (const std::int64_t count : {1 << 17, 1 << 23}) {
      const Tensor x = tensor({count}), y = tensor({count}), z = tensor({count});
      const std::string shape = fmt::format("{}", count);
      bytes("copy", shape, 2, x.bytes(), [&] { kernels_.copy(x, y); });
      bytes("add", shape, 3, x.bytes(), [&] { kernels_.binary(kernels::Binary::add, x, y, z); });
      bytes("axpby", shape, 3, x.bytes(), [&] { kernels_.axpby(0.5, x, 0.5, y); });
      bytes("relu", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::relu, x, y); });
      bytes("gelu", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::gelu, x, y); });
      bytes("gelu backward", shape, 3, x.bytes(),
            [&] { kernels_.unary_backward(Unary::gelu, x, y, z, y, false); });
      bytes("tanh", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::tanh, x, y); });
      bytes("sigmoid", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::sigmoid, x, y); });
      bytes("exp", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::exp, x, y); });
      bytes("log", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::log, x, y); });
      bytes("sqrt", shape, 2, x.bytes(), [&] { kernels_.unary(Unary::sqrt, x, y); });
    }
    const Tensor x = tensor({1024, 1024}), y = tensor({1024, 1024}), row = tensor({1024}),
                 column = tensor({1024, 1});
    bytes("copy transposed", "1024 x 1024", 2, x.bytes(),
          [&] { kernels_.copy(x.transpose(0, 1), y); });
    bytes("add a row", "1024 x 1024", 2, x.bytes(),
          [&] { kernels_.binary(kernels::Binary::add, x, row, y); });
    bytes("add a column", "1024 x 1024", 2, x.bytes(),
          [&] { kernels_.binary(kernels::Binary::add, x, column, y); });
    const base::RandomStream stream(1, "dropout");
    bytes("dropout", "1024 x 1024", 2, x.bytes(),
          [&] { kernels_.dropout(x, 0.1, stream, 0, y, false); });
  }

  void reductions() {
    const Tensor x = tensor({1024, 1024}), y = tensor({1024, 1024});
    const Tensor row = tensor({1024}), column = tensor({1024, 1}), one = tensor({});
    const Tensor sum = Tensor::empty(*context_, {1}, DType::float64),
                 flag = Tensor::empty(*context_, {1}, DType::int32);
    bytes("sum down columns", "1024 x 1024", 1, x.bytes(),
          [&] { kernels_.sum_to(1, x, row, false); });
    bytes("sum along rows", "1024 x 1024", 1, x.bytes(),
          [&] { kernels_.sum_to(1, x, column, false); });
    bytes("sum of all", "1024 x 1024", 1, x.bytes(), [&] { kernels_.sum_to(1, x, one, false); });
    bytes("sum of products", "1024 x 1024", 2, x.bytes(),
          [&] { kernels_.multiply_sum_to(1, x, y, row, false); });
    bytes("sum of squares", "1024 x 1024", 1, x.bytes(), [&] { kernels_.sum_of_squares(x, sum); });
    bytes("find values that are not finite", "1024 x 1024", 1, x.bytes(),
          [&] { kernels_.find_nonfinite(x, flag); });
  }

  void losses() {
    for (const auto& [rows, classes] :
         {std::pair<std::int64_t, std::int64_t>{256, 10}, {256, 1000}, {64, 32768}}) {
      const Tensor logits = tensor({rows, classes}), grad = tensor({rows, classes}),
                   y = tensor({rows, classes});
      const Tensor targets = Tensor::empty(*context_, {rows}, DType::int64);
      for (std::int64_t& target : targets.elements<std::int64_t>()) target = 3;
      const Tensor total = Tensor::empty(*context_, {2}, DType::float64);
      const std::string shape = fmt::format("{} x {}", rows, classes);
      bytes("cross entropy with gradient", shape, 2, grad.bytes(),
            [&] { kernels_.cross_entropy(logits, targets, {}, {.total = total, .grad = grad}); });
      bytes("softmax", shape, 2, grad.bytes(), [&] { kernels_.softmax(logits, y); });
      bytes("softmax backward", shape, 3, grad.bytes(),
            [&] { kernels_.softmax_backward(y, logits, grad, false); });
      bytes("log softmax", shape, 2, grad.bytes(), [&] { kernels_.log_softmax(logits, y); });
    }
  }

  void optimizers() {
    for (const std::int64_t count : {535'818, 5'824'522}) {
      const Tensor p = tensor({count}), g = tensor({count}), m = tensor({count}),
                   v = tensor({count});
      kernels_.unary(kernels::Unary::square, v, v);
      const std::string shape = fmt::format("{}", count);
      const Tensor sgd = kernels::make_sgd_constants(p), adam = kernels::make_adam_constants(p);
      kernels::store_constants(kernels::SgdOptions{.lr = 1e-9, .momentum = 0.9}, sgd);
      kernels::store_constants(kernels::AdamOptions{.lr = 1e-9}, adam);
      bytes("sgd", shape, 3, p.bytes(), [&] { kernels_.sgd_step(p, g, {}, false, sgd, {}); });
      bytes("sgd with momentum", shape, 5, p.bytes(),
            [&] { kernels_.sgd_step(p, g, m, false, sgd, {}); });
      bytes("adam", shape, 7, p.bytes(), [&] { kernels_.adam_step(p, g, m, v, adam, {}); });
    }
  }

  Options options_;
  std::unique_ptr<Context> context_;
  const kernels::Kernels& kernels_;
  double peak_gflops_ = 0, copy_gbs_ = 0;
  std::uint64_t tensors_ = 0;
  Report report_{{"kernel", "shape", "us", "min us", "rate", "unit", "share", "runs"}};
};

}  // namespace
}  // namespace lockstep::benchmarks

int main(int argc, char** argv) {
  using namespace lockstep::benchmarks;
  CLI::App app("Times the kernels of the CPU.");
  Options options;
  describe(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return Benchmark(options).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernels: {}\n", error.what());
    return 2;
  }
}
