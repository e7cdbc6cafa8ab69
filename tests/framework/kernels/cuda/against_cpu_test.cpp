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
      cpu_kernels().sgd_step(host, host_grad, host_momentum, false, host_constants, {.scale = 0.5});
      kernels_under_test().sgd_step(device, device_grad, device_momentum, false, device_constants,
                                    {.scale = 0.5});
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

}  // namespace
}  // namespace lockstep::kernels::testing
