// What is special about GPUs: long rows go to whole blocks, addresses need not be aligned, and the
// CPU's kernels are the reference.
#include <functional>

#include "framework/device/cpu/cpu_context.h"
#include "framework/kernels/stored_constants.h"
#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

class AgainstCpu : public ::testing::Test {
 protected:
  // The same values on both kinds of device; `shift` elements behind an aligned address.
  std::pair<Tensor, Tensor> pair(const Shape& shape, std::int64_t shift = 0,
                                 DType dtype = DType::float32) {
    const auto make = [&](Context& context) {
      return Tensor::empty(context, {shape.count() + shift}, dtype)
          .slice(0, shift, shape.count() + shift)
          .reshape(shape);
    };
    const Tensor host = make(*host_context_), device = make(*device_context_);
    Values values(static_cast<std::size_t>(shape.count()));
    for (double& value : values) value = random_.uniform(-3, 3);
    assign(host, values);
    assign(device, values);
    return {host, device};
  }

  const std::unique_ptr<Context> host_context_ = device::make_cpu_context();
  const std::unique_ptr<Context> device_context_ = make_test_context();
  Random random_{1};
};

TEST_F(AgainstCpu, RowsLongerThanAWarpTakes) {
  for (const std::int64_t length : {1024, 1025, 1500, 4099}) {
    for (const std::int64_t shift : {0, 1}) {
      const auto [host, device] = pair({3, length}, shift);
      const auto [host_grad, device_grad] = pair({3, length});
      const auto check = [&](const std::function<void(const Kernels&, Tensor, Tensor, Tensor)>& f) {
        const Tensor on_host = Tensor::empty(*host_context_, {3, length});
        const Tensor on_device = Tensor::empty(*device_context_, {3, length});
        f(cpu_kernels(), host, host_grad, on_host);
        f(kernels_under_test(), device, device_grad, on_device);
        expect_close(on_device, values_of(on_host), tolerance(DType::float32, 16));
      };
      check([](const Kernels& k, Tensor x, Tensor, Tensor out) { k.softmax(x, out); });
      check([](const Kernels& k, Tensor x, Tensor, Tensor out) { k.log_softmax(x, out); });
      check([](const Kernels& k, Tensor x, Tensor grad, Tensor out) {
        const Tensor y = Tensor::empty(x.context(), x.shape());
        k.softmax(x, y);
        k.softmax_backward(y, grad, out, false);
      });
      const std::vector<std::int64_t> targets{length - 1, 0, -100};
      const auto loss = [&](const Kernels& k, const Tensor& x, const Tensor& grad) {
        const Tensor total = Tensor::empty(x.context(), {2}, DType::float64);
        k.cross_entropy(x, Tensor::from<std::int64_t>(x.context(), targets, {3}),
                        {.label_smoothing = 0.1}, {.total = total, .grad = grad});
        return values_of(total);
      };
      const Tensor on_host = Tensor::empty(*host_context_, {3, length});
      const Tensor on_device = Tensor::empty(*device_context_, {3, length});
      const Values expected = loss(cpu_kernels(), host, on_host);
      const Values found = loss(kernels_under_test(), device, on_device);
      EXPECT_EQ(found[1], expected[1]);
      EXPECT_NEAR(found[0], expected[0], 1e-5);
      expect_close(on_device, values_of(on_host), tolerance(DType::float32, 16));
    }
  }
}

TEST_F(AgainstCpu, CountsTheFirstOfEqualLogitsInLongRows) {
  Values values(2 * 3000, 0.0);
  values[17] = values[2900] = 5;
  values[3000 + 2999] = 1;
  const Tensor logits = Tensor::empty(*device_context_, {2, 3000});
  assign(logits, values);
  const auto correct = [&](std::int64_t first, std::int64_t second) {
    const Tensor count = Tensor::empty(*device_context_, {1}, DType::float64);
    kernels_under_test().count_correct(
        logits, Tensor::from<std::int64_t>(*device_context_, {first, second}, {2}), -100, count,
        false);
    return count.item<double>();
  };
  EXPECT_EQ(correct(17, 2999), 2);
  EXPECT_EQ(correct(2900, 2999), 1);
}

// Optimizer slices begin and end wherever buckets do.
TEST_F(AgainstCpu, UpdatesOfMisalignedRangesHaveTheSameBits) {
  for (const std::int64_t shift : {0, 1, 2, 3}) {
    for (const std::int64_t gradient_shift : {shift, std::int64_t{0}}) {
      const auto [host, device] = pair({1003}, shift);
      const auto [host_grad, device_grad] = pair({1003}, gradient_shift);
      const auto [host_momentum, device_momentum] = pair({1003}, shift);
      const SgdOptions options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01};
      const Tensor host_constants = make_sgd_constants(host),
                   device_constants = make_sgd_constants(device);
      store_constants(options, host_constants);
      store_constants(options, device_constants);
      cpu_kernels().sgd_step(host, {}, host_grad, host_momentum, false, host_constants, {});
      kernels_under_test().sgd_step(device, {}, device_grad, device_momentum, false,
                                    device_constants, {});
      EXPECT_EQ(values_of(device), values_of(host));
      EXPECT_EQ(values_of(device_momentum), values_of(host_momentum));
    }
  }
}

TEST_F(AgainstCpu, SumsDoNotDependOnTheAddress) {
  Values first;
  for (const std::int64_t shift : {0, 1, 3}) {
    random_ = Random(7);
    const auto [host, device] = pair({9001}, shift);
    const Tensor out = Tensor::empty(*device_context_, {});
    kernels_under_test().sum_to(1, device, out, false);
    Values sums = values_of(out);
    const Tensor squares = Tensor::empty(*device_context_, {1}, DType::float64);
    kernels_under_test().sum_of_squares(device, squares);
    sums.push_back(squares.item<double>());
    if (first.empty()) first = sums;
    EXPECT_EQ(sums, first);
  }
}

TEST_F(AgainstCpu, MasksAreThoseOfTheCpu) {
  for (const std::int64_t width : {64, 67, 65}) {
    const base::RandomStream stream(3, "dropout:test", static_cast<std::uint64_t>(width / 2));
    const auto [host, device] = pair({11, width});
    const Tensor on_host = Tensor::empty(*host_context_, {11, width});
    const Tensor on_device = Tensor::empty(*device_context_, {11, width});
    cpu_kernels().dropout(host, 0.4, stream, 1000, on_host, false);
    kernels_under_test().dropout(device, 0.4, stream, 1000, on_device, false);
    EXPECT_EQ(values_of(on_device), values_of(on_host));
  }
}

TEST_F(AgainstCpu, ConversionsOfManyElements) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    const auto [host, device] = pair({5001}, 3);
    const Tensor host_16 = Tensor::empty(*host_context_, {5001}, dtype);
    const Tensor device_16 = Tensor::empty(*device_context_, {5001}, dtype);
    cpu_kernels().copy(host, host_16);
    kernels_under_test().copy(device, device_16);
    EXPECT_EQ(values_of(device_16), values_of(host_16));
    const Tensor back = Tensor::empty(*device_context_, {5001});
    kernels_under_test().copy(device_16, back);
    EXPECT_EQ(values_of(back), values_of(host_16));
  }
}

// An element is off by at most the rounding of both factors, and by some of it. All three ways in
// which products are computed: plain, with a bias in the epilogue, and of float64.
TEST_F(AgainstCpu, ProductsRoundTheirFactorsAsAsked) {
  const auto [host_a, device_a] = pair({48, 64});
  const auto [host_b, device_b] = pair({32, 64});
  const auto [host_bias, device_bias] = pair({32});
  const Values a = values_of(host_a), b = values_of(host_b), bias = values_of(host_bias);
  const auto largest_error = [&](const Tensor& y, bool has_bias) {
    const Values found = values_of(y);
    double largest = 0;
    for (std::size_t row = 0; row < 48; ++row)
      for (std::size_t column = 0; column < 32; ++column) {
        double exact = has_bias ? bias[column] : 0, size = std::abs(exact);
        for (std::size_t k = 0; k < 64; ++k) {
          const double term = a[row * 64 + k] * b[column * 64 + k];
          exact += term;
          size += std::abs(term);
        }
        largest = std::max(largest, std::abs(found[row * 32 + column] - exact) / size);
      }
    return largest;
  };
  const Kernels& kernels = kernels_under_test();
  const Tensor y = Tensor::empty(*device_context_, {48, 32});
  for (const auto& [precision, rounding] : {std::pair{ProductPrecision::bfloat16, 0x1p-8},
                                            {ProductPrecision::tf32, 0x1p-11},
                                            {ProductPrecision::float32, 0x1p-24}}) {
    kernels.set_product_precision(*device_context_, precision);
    const double most = 2 * rounding + 0x1p-20;  // sums are of floats
    for (const bool has_bias : {false, true}) {
      if (has_bias)
        kernels.linear(device_a, device_b, device_bias, Activation::none, false, y);
      else
        kernels.matmul(device_a, device_b.transpose(0, 1), y, false);
      EXPECT_LE(largest_error(y, has_bias), most);
      if (precision != ProductPrecision::float32) {
        EXPECT_GT(largest_error(y, has_bias), most / 50);
      }
    }
    const Tensor wide_a = Tensor::empty(*device_context_, {48, 64}, DType::float64),
                 wide_b = Tensor::empty(*device_context_, {32, 64}, DType::float64),
                 wide_y = Tensor::empty(*device_context_, {48, 32}, DType::float64);
    kernels.copy(device_a, wide_a);
    kernels.copy(device_b, wide_b);
    kernels.matmul(wide_a, wide_b.transpose(0, 1), wide_y, false);
    EXPECT_LE(largest_error(wide_y, false), 0x1p-48);
  }
  EXPECT_THROW(cpu_kernels().set_product_precision(*host_context_, ProductPrecision::tf32),
               UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing
