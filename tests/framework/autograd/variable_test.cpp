#include "tests/framework/autograd/fixture.h"

namespace lockstep::autograd {
namespace {

using VariableTest = AutogradTest;

TEST_F(VariableTest, CopiesAreTheSameVariable) {
  const Variable a = leaf("a"), copy = a, other = leaf("a");
  EXPECT_TRUE(a.same_as(copy));
  EXPECT_FALSE(a.same_as(other));
  Variable(copy).set_grad(Tensor::empty(context, {1}));
  EXPECT_TRUE(a.grad().defined());
}

TEST_F(VariableTest, GradientsTakeMemoryOfTheRightKindOnly) {
  Variable w = leaf("w", {2, 3});
  w.set_grad(Tensor::empty(context, {2, 3}));
  w.set_grad({});
  EXPECT_FALSE(w.grad().defined());
  expect_error<UsageError>(
      [&] {
        w.set_grad(Tensor::empty(context, {3, 2}));
      },
      {"gradient of 'w'", "[3, 2]", "[2, 3]"});
  expect_error<UsageError>(
      [&] {
        w.set_grad(Tensor::empty(context, {2, 3}, DType::float64));
      },
      {"'w'", "float64", "float32"});
  expect_error<UsageError>(
      [&] {
        w.set_grad(Tensor::empty(context, {3, 2}).transpose(0, 1));
      },
      {"'w'", "contiguous"});
}

TEST_F(VariableTest, ValuesMoveToMemoryOfTheSameKindOnly) {
  Variable w = leaf("w", {2});
  const Tensor elsewhere = Tensor::empty(context, {2});
  w.set_value(elsewhere);
  EXPECT_TRUE(w.value().shares_memory_with(elsewhere));
  expect_error<UsageError>([&] { w.set_value(Tensor::empty(context, {3})); },
                           {"value of 'w'", "[3]", "[2]"});
  expect_error<UsageError>([&] { w.set_value({}); }, {"value of 'w'", "undefined"});
}

TEST_F(VariableTest, AValueOnItsWayIsWaitedForWhenItIsRead) {
  Variable x = leaf("x");
  int arrivals = 0;
  x.set_arrival([&] {
    ++arrivals;
    x.value().elements<float>()[0] = 5;  // whoever waits may read
  });
  EXPECT_EQ(x.shape(), Shape{1});
  EXPECT_EQ(x.dtype(), DType::float32);
  EXPECT_EQ(&x.context(), &context);
  EXPECT_EQ(arrivals, 0);
  const Variable y = probe("op", {x});
  EXPECT_EQ(y.value().item<float>(), 5);
  EXPECT_EQ(x.value().item<float>(), 5);
  EXPECT_EQ(arrivals, 1);
  Variable result = y;
  expect_error<UsageError>([&] { result.set_arrival([] {}); }, {"set_arrival", "'op'"});
}

TEST_F(VariableTest, OnlyFloatingPointCanRequireAGradient) {
  const Tensor labels = Tensor::empty(context, {2}, DType::int64);
  Variable constant(labels, false, "labels");
  expect_error<UsageError>([&] { constant.set_requires_grad(true); }, {"'labels'", "int64"});
  expect_error<UsageError>([&] { Variable(labels, true, "labels"); }, {"'labels'", "int64"});
}

TEST_F(VariableTest, ResultsHaveNoGradientOfTheirOwn) {
  Variable y = probe("double", {leaf("a")});
  EXPECT_FALSE(y.is_leaf());
  EXPECT_TRUE(y.requires_grad());
  expect_error<UsageError>([&] { y.grad(); }, {"grad", "'double'"});
  expect_error<UsageError>([&] { y.set_grad({}); }, {"'double'"});
  expect_error<UsageError>([&] { y.set_value(y.value()); }, {"'double'"});
  expect_error<UsageError>([&] { y.set_requires_grad(false); }, {"'double'"});
}

TEST_F(VariableTest, DetachCutsTheGraph) {
  const Variable a = leaf("a"), y = probe("op", {a}).detach();
  EXPECT_TRUE(y.is_leaf());
  EXPECT_FALSE(y.requires_grad());
  EXPECT_FALSE(probe("op", {y}).requires_grad());
}

TEST_F(VariableTest, UndefinedOnesAreCaught) {
  const Variable none;
  EXPECT_FALSE(none.defined());
  expect_error<UsageError>([&] { none.value(); }, {"undefined Variable"});
  expect_error<UsageError>([&] { Variable(Tensor{}); }, {"undefined tensor"});
}

TEST_F(VariableTest, NothingIsRecordedWithoutNeed) {
  EXPECT_TRUE(probe("op", {leaf("a", {1}, false)}).is_leaf());
  const Variable a = leaf("a");
  {
    const NoGrad outer(context);
    { const NoGrad inner(context); }
    EXPECT_FALSE(probe("op", {a}).requires_grad());
  }
  EXPECT_TRUE(probe("op", {a}).requires_grad());
}

}  // namespace
}  // namespace lockstep::autograd
