#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "framework/autograd/engine.h"
#include "framework/autograd/no_grad.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/ops/ops.h"
#include "tests/framework/ops/gradient_check.h"

namespace lockstep::ops {

// A context, and what the tests of single operations share.
class OpsTest : public testing::Test {
 protected:
  Variable leaf(std::initializer_list<double> values, const Shape& shape) {
    return Variable(Tensor::from(context, values, shape), true);
  }
  Variable constant(const Shape& shape, DType dtype = DType::float64) {
    return Variable(Tensor::empty(context, shape, dtype));
  }
  static std::vector<double> values(const Tensor& tensor) {
    const auto elements = tensor.elements<double>();
    return {elements.begin(), elements.end()};
  }
  // Runs `call` and expects a UsageError whose message holds every one of `parts`.
  template <class Call>
  static void expect_usage_error(Call&& call, const std::vector<std::string>& parts) {
    try {
      call();
      ADD_FAILURE() << "expected a UsageError that says " << testing::PrintToString(parts);
    } catch (const UsageError& error) {
      for (const std::string& part : parts) {
        EXPECT_THAT(error.what(), testing::HasSubstr(part));
      }
    }
  }

  std::unique_ptr<Context> owner = device::make_cpu_context();
  Context& context = *owner;
  Random random{context};
};

}  // namespace lockstep::ops
