#include <pthread.h>

#include <algorithm>
#include <utility>

#include "tests/framework/autograd/fixture.h"

namespace lockstep::autograd {
namespace {

class EngineMemory : public AutogradTest {
 protected:
  static constexpr std::int64_t elements = 1024;
  static constexpr std::size_t tensor_bytes = elements * sizeof(float);

  std::size_t bytes_in_use() const { return owner->allocator().statistics().bytes_in_use; }

  // The last op of a chain of `length`; the probe has no reduction, so tests that need a scalar use
  // tensors of one element.
  Variable chain(Variable x, int length, const ProbeOptions& options = {}) {
    for (int i = 0; i < length; ++i) x = probe("link", {x}, options);
    return x;
  }
};

TEST_F(EngineMemory, TheTapeKeepsNoValuesOfItsOwn) {
  const Variable x = leaf("x", {elements});
  const Variable y = chain(x, 50);
  EXPECT_EQ(bytes_in_use(), 2 * tensor_bytes);  // x and y
}

TEST_F(EngineMemory, EachNodeIsFreedAsSoonAsItRan) {
  constexpr int length = 20;
  const Variable x = leaf("x");
  std::vector<Variable> leaves;
  Variable y = x;
  for (int i = 0; i < length; ++i) {
    leaves.push_back(leaf("w"));
    leaves.back().set_grad(Tensor::empty(context, {1}));
    y = probe("link", {y, leaves.back()}, {.save = true});
  }
  const std::size_t before = bytes_in_use();
  const std::size_t one = device::CachingAllocator::size_class(sizeof(float));
  std::vector<std::size_t> seen;
  BackwardOptions options;
  options.on_gradient_ready = [&](const Variable&, std::int64_t, std::int64_t) {
    seen.push_back(bytes_in_use());
  };
  backward(y, options);
  ASSERT_EQ(seen.size(), leaves.size() + 1);
  for (std::size_t i = 0; i + 1 < seen.size(); ++i) {
    // One saved tensor fewer for each node that ran; one gradient is on its way.
    EXPECT_LE(seen[i] + i * one, before) << "after node " << i;
  }
  EXPECT_EQ(bytes_in_use(), before - length * one + one);  // the saved ones; x's gradient is new
}

TEST_F(EngineMemory, ASteadyStepAsksTheSourceForNothing) {
  const Variable x = leaf("x"), w = leaf("w");
  const auto step = [&] {
    const Variable h = chain(probe("in", {x, w}, {.save = true}), 5, {.save = true});
    backward(probe("out", {h, probe("side", {h, w}, {Hand::give})}, {Hand::mixed}));
  };
  for (int i = 0; i < 2; ++i) step();  // the first also allocates the leaves' gradients
  const auto warm = context.allocator().statistics();
  for (int i = 0; i < 10; ++i) step();
  const auto steady = context.allocator().statistics();
  EXPECT_GT(steady.requests, warm.requests);
  EXPECT_EQ(steady.source_requests, warm.source_requests);
  EXPECT_EQ(steady.bytes_in_use, warm.bytes_in_use);
}

constexpr int deep = 100'000;

// Recursion over a deep graph shows on a small stack whatever the size of a frame.
template <class Body>
void run_on_small_stack(Body body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  const auto call = [](void* what) -> void* {
    (*static_cast<Body*>(what))();
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, call, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST_F(EngineMemory, ADeepChainDoesNotOverflowTheStack) {
  run_on_small_stack([this] {
    const Variable x = leaf("x");
    backward(chain(x, deep), announcing());
    EXPECT_EQ(gradient(x), 1);
    EXPECT_THAT(events, testing::ElementsAre("ready x"));
  });
}

TEST_F(EngineMemory, ADeepGraphIsFreedWithoutBackward) {
  run_on_small_stack([this] {
    const Variable x = leaf("x");
    chain(x, deep);
    Variable y = x;
    for (int i = 0; i < deep; ++i) y = probe("twin", {y, y});
    y = {};
    Variable z = x, before = x;
    for (int i = 0; i < deep; ++i) before = std::exchange(z, probe("ladder", {z, before}));
    const Variable branch = probe("branch", {z});
    z = before = {};
    EXPECT_TRUE(branch.requires_grad());
  });
}

TEST_F(EngineMemory, AGraphThatIsStillHeldSurvivesItsConsumers) {
  const Variable x = leaf("x"), h = chain(x, 3);
  { const Variable dropped = chain(h, 10); }
  backward(probe("op", {h, h}));
  EXPECT_EQ(gradient(x), 2);
}

}  // namespace
}  // namespace lockstep::autograd
