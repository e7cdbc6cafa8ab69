#include "tests/framework/autograd/fixture.h"

namespace lockstep::autograd {
namespace {

using EngineErrors = AutogradTest;

TEST_F(EngineErrors, TheOutputMustBeAScalar) {
  const Variable y = probe("op", {leaf("x", {2, 3})});
  expect_error<UsageError>([&] { backward(y); }, {"backward", "[2, 3]", "one element"});
  expect_error<UsageError>([&] { backward(probe("op", {leaf("x", {0})})); }, {"[0]"});
  expect_error<UsageError>([&] { backward(Variable()); }, {"undefined"});
}

TEST_F(EngineErrors, NothingToDifferentiate) {
  expect_error<UsageError>([&] { backward(leaf("x", {1}, false)); }, {"nothing to differentiate"});
  const NoGrad no_grad(context);
  expect_error<UsageError>([&] { backward(probe("op", {leaf("x")})); },
                           {"nothing to differentiate"});
}

TEST_F(EngineErrors, BackwardTwice) {
  const Variable x = leaf("x"), h = probe("hidden", {x}), y = probe("loss", {h});
  backward(y);
  expect_error<UsageError>([&] { backward(y); }, {"already consumed", "'loss'"});
  expect_error<UsageError>([&] { backward(probe("other", {h})); },
                           {"already consumed", "'hidden'"});
  EXPECT_EQ(gradient(x), 1);
}

TEST_F(EngineErrors, OpsThatBreakTheirContractAreNamed) {
  const auto run = [&](Hand hand) {
    backward(probe("loss", {probe("broken", {leaf("x"), leaf("y", {1}, false)}, {hand})}));
  };
  expect_error<Error>([&] { run(Hand::nothing); }, {"'broken'", "no gradient to input 0"});
  expect_error<Error>([&] { run(Hand::twice); }, {"'broken'", "input 0", "twice"});
  expect_error<Error>([&] { run(Hand::unwanted); }, {"'broken'", "input 1", "wants none"});
  expect_error<Error>([&] { run(Hand::wrong_shape); }, {"'broken'", "[7, 7]", "[1]"});
  expect_error<Error>([&] { run(Hand::wrong_dtype); }, {"'broken'", "float64", "float32"});
  expect_error<Error>([&] { run(Hand::finished_twice); },
                      {"'broken'", "1 elements", "after 1 of 1"});
  expect_error<Error>([&] { run(Hand::finished_too_much); }, {"'broken'", "2 elements", "0 of 1"});
  expect_error<Error>([&] { run(Hand::finished_unbegun); }, {"'broken'", "not begun"});
}

TEST_F(EngineErrors, AFailureFreesTheGraphAndHarmsNothingElse) {
  const Variable x = leaf("x");
  const std::size_t before = context.allocator().statistics().bytes_in_use;
  {
    const Variable h = probe("hidden", {probe("broken", {x}, {Hand::raise})}, {.save = true});
    const Variable y = probe("loss", {h});
    expect_error<NumericError>([&] { backward(y, announcing()); }, {"told to fail"});
    expect_error<UsageError>([&] { backward(y); }, {"already consumed"});
  }
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(context.allocator().statistics().bytes_in_use, before);
  backward(probe("op", {x}));
  EXPECT_EQ(gradient(x), 1);
}

TEST_F(EngineErrors, AnErrorOfTheCallbackReachesTheCaller) {
  BackwardOptions options;
  options.on_gradient_ready = [](const Variable&, std::int64_t, std::int64_t) {
    throw RankError(3, "rank 3 is gone");
  };
  const Variable x = leaf("x");
  expect_error<RankError>(
      [&] {
        backward(probe("op", {probe("op", {x}), x}), options);
      },
      {"rank 3"});
}

// A callback that runs a backward through the graph of the outer one.
TEST_F(EngineErrors, ANestedBackwardOverTheSameGraph) {
  const Variable w = leaf("w"), h = probe("shared", {leaf("x")}), other = probe("other", {h});
  BackwardOptions options;
  options.on_gradient_ready = [&](const Variable& ready, std::int64_t, std::int64_t) {
    if (ready.same_as(w)) backward(other);
  };
  expect_error<UsageError>(
      [&] {
        backward(probe("loss", {h, w}), options);
      },
      {"already consumed", "'shared'"});
}

}  // namespace
}  // namespace lockstep::autograd
