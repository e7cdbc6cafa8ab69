#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "framework/autograd/engine.h"
#include "framework/autograd/no_grad.h"
#include "framework/device/cpu/cpu_context.h"
#include "tests/framework/autograd/probe.h"

namespace lockstep::autograd {

class AutogradTest : public testing::Test {
 protected:
  Variable leaf(std::string name, const Shape& shape = {1}, bool requires_grad = true) {
    const std::vector<float> ones(static_cast<std::size_t>(shape.count()), 1.0f);
    return Variable(Tensor::from(context, std::span<const float>(ones), shape), requires_grad,
                    std::move(name));
  }
  static float gradient(const Variable& leaf) { return leaf.grad().elements<float>()[0]; }
  // Adds "ready NAME" to `events` for every leaf that is announced.
  BackwardOptions announcing() {
    BackwardOptions options;
    options.on_gradient_ready = [this](const Variable& ready, std::int64_t begin,
                                       std::int64_t end) {
      EXPECT_EQ(begin, 0);
      EXPECT_EQ(end, ready.value().count());
      events.push_back("ready " + ready.name());
    };
    return options;
  }
  // Runs `call` and expects an E whose message holds every one of `parts`.
  template <class E, class Call>
  static void expect_error(Call&& call, const std::vector<std::string>& parts) {
    try {
      call();
      ADD_FAILURE() << "expected an error that says " << testing::PrintToString(parts);
    } catch (const E& error) {
      for (const std::string& part : parts) {
        EXPECT_THAT(error.what(), testing::HasSubstr(part));
      }
    }
  }

  std::unique_ptr<Context> owner = device::make_cpu_context();
  Context& context = *owner;
  Events events;
};

}  // namespace lockstep::autograd
