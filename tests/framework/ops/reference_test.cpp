#include <fmt/format.h>

#include <cmath>
#include <map>

#include "tests/framework/ops/fixture.h"
#include "tests/framework/ops/reference/reference_values.h"

namespace lockstep::ops {

void PrintTo(const ReferenceCase& c, std::ostream* out) {
  *out << c.name;
}

namespace {

using Inputs = std::vector<Variable>;

std::vector<int> axes(std::initializer_list<int> list) {
  return list;
}

Variable reference_cross_entropy(const Variable& logits, double label_smoothing) {
  const std::vector<std::int64_t> rows = {2, 0, -100, 3, 2};
  const Tensor targets = Tensor::from(logits.context(), std::span<const std::int64_t>(rows), {5});
  return cross_entropy(logits, targets, 1.0, {.label_smoothing = label_smoothing}).loss_sum;
}

Variable reference_batch_norm(const Inputs& in, bool training) {
  Context& context = in[0].context();
  const auto convert = [&](std::initializer_list<double> values) {
    const Tensor converted = Tensor::empty(context, {3}, in[0].dtype());
    kernels::kernels_for(context).copy(Tensor::from(context, values, {3}), converted);
    return converted;
  };
  return batch_norm(in[0], in[1], in[2], convert({0.5, -1.0, 0.25}), convert({1.0, 0.5, 2.0}),
                    {.training = training});
}

// By the names in make_reference.py.
const std::map<std::string, Function> functions = {
    {"add", [](const Inputs& in) { return add(in[0], in[1]); }},
    {"subtract", [](const Inputs& in) { return subtract(in[0], in[1]); }},
    {"multiply", [](const Inputs& in) { return multiply(in[0], in[1]); }},
    {"divide", [](const Inputs& in) { return divide(in[0], in[1]); }},
    {"divide_broadcast", [](const Inputs& in) { return divide(in[0], in[1]); }},
    {"scale", [](const Inputs& in) { return scale(in[0], -2.5); }},
    {"relu", [](const Inputs& in) { return relu(in[0]); }},
    {"gelu", [](const Inputs& in) { return gelu(in[0]); }},
    {"tanh", [](const Inputs& in) { return tanh(in[0]); }},
    {"sigmoid", [](const Inputs& in) { return sigmoid(in[0]); }},
    {"exp", [](const Inputs& in) { return exp(in[0]); }},
    {"log", [](const Inputs& in) { return log(in[0]); }},
    {"matmul", [](const Inputs& in) { return matmul(in[0], in[1]); }},
    {"matmul_batched", [](const Inputs& in) { return matmul(in[0], in[1]); }},
    {"matmul_one_matrix", [](const Inputs& in) { return matmul(in[0], in[1]); }},
    {"linear", [](const Inputs& in) { return linear(in[0], in[1], in[2]); }},
    {"linear_no_bias", [](const Inputs& in) { return linear(in[0], in[1], {}); }},
    {"linear_relu", [](const Inputs& in) { return linear(in[0], in[1], in[2], Activation::relu); }},
    {"linear_gelu", [](const Inputs& in) { return linear(in[0], in[1], in[2], Activation::gelu); }},
    {"linear_tanh", [](const Inputs& in) { return linear(in[0], in[1], in[2], Activation::tanh); }},
    {"linear_sigmoid",
     [](const Inputs& in) { return linear(in[0], in[1], in[2], Activation::sigmoid); }},
    {"sum_all", [](const Inputs& in) { return sum(in[0]); }},
    {"sum_axes",
     [](const Inputs& in) {
       return sum(in[0], axes({0, 2}));
     }},
    {"sum_keep", [](const Inputs& in) { return sum(in[0], axes({-1}), true); }},
    {"mean_all", [](const Inputs& in) { return mean(in[0]); }},
    {"mean_axis", [](const Inputs& in) { return mean(in[0], axes({1})); }},
    {"softmax", [](const Inputs& in) { return softmax(in[0]); }},
    {"log_softmax", [](const Inputs& in) { return log_softmax(in[0]); }},
    {"cross_entropy", [](const Inputs& in) { return reference_cross_entropy(in[0], 0); }},
    {"cross_entropy_smooth", [](const Inputs& in) { return reference_cross_entropy(in[0], 0.1); }},
    {"squared_error", [](const Inputs& in) { return squared_error(in[0], in[1].value()); }},
    {"mse", [](const Inputs& in) { return mse(in[0], in[1].value()); }},
    {"reshape",
     [](const Inputs& in) {
       return reshape(in[0], {4, 3});
     }},
    {"transpose", [](const Inputs& in) { return transpose(in[0], 0, 2); }},
    {"slice", [](const Inputs& in) { return slice(in[0], 1, 1, 3); }},
    {"concat", [](const Inputs& in) { return concat(in, 1); }},
    {"batch_norm", [](const Inputs& in) { return reference_batch_norm(in, true); }},
    {"batch_norm_inference", [](const Inputs& in) { return reference_batch_norm(in, false); }},
    {"gelu_tanh", [](const Inputs& in) { return gelu_tanh(in[0]); }},
    {"linear_gelu_tanh",
     [](const Inputs& in) { return linear(in[0], in[1], in[2], Activation::gelu_tanh); }},
};

// The reference is float64 as well; it may sum in another order.
template <class T>
constexpr double tolerance = std::is_same_v<T, double> ? 1e-12 : 1e-5;

class Reference : public testing::TestWithParam<ReferenceCase> {
 protected:
  template <class T>
  Tensor tensor(const ReferenceTensor& from) {
    const std::vector<T> values(from.values.begin(), from.values.end());
    return Tensor::from(*context, std::span<const T>(values), from.shape);
  }

  template <class T>
  void expect_near(const Tensor& found, const ReferenceTensor& expected, const std::string& what) {
    ASSERT_EQ(found.shape(), expected.shape) << what;
    const Tensor packed = reshape(Variable(found), {found.count()}).value();
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(packed.elements<T>()[i]), expected.values[i],
                  tolerance<T> * std::max(1.0, std::abs(expected.values[i])))
          << what << ", element " << i;
    }
  }

  template <class T>
  void run() {
    const ReferenceCase& reference = GetParam();
    Inputs inputs;
    for (const ReferenceTensor& input : reference.inputs)
      inputs.emplace_back(tensor<T>(input), true);
    const Variable output = functions.at(reference.name)(inputs);
    expect_near<T>(output.value(), reference.output, "output");
    autograd::backward(sum(output * Variable(tensor<T>(reference.weight))));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].grad().defined()) continue;  // the target of a loss
      expect_near<T>(inputs[i].grad(), reference.gradients[i], fmt::format("gradient {}", i));
    }
  }

  std::unique_ptr<Context> context = device::make_cpu_context();
};

TEST_P(Reference, AgreesInFloat64) {
  run<double>();
}
TEST_P(Reference, AgreesInFloat32) {
  run<float>();
}

INSTANTIATE_TEST_SUITE_P(Ops, Reference, testing::ValuesIn(reference_cases),
                         [](const auto& test) { return test.param.name; });

TEST(ReferenceCases, CoverEveryFunction) {
  EXPECT_EQ(std::size(reference_cases), functions.size());
}

}  // namespace
}  // namespace lockstep::ops
