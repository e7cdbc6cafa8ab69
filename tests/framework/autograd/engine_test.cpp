#include "tests/framework/autograd/fixture.h"

namespace lockstep::autograd {
namespace {

using testing::ElementsAre;

using EngineTest = AutogradTest;

TEST_F(EngineTest, RunsTheReverseOfTheForwardAndAnnouncesOnTheWay) {
  const ProbeOptions log{.events = &events};
  const Variable w1 = leaf("w1"), w2 = leaf("w2"), w3 = leaf("w3");
  Variable h = probe("first", {leaf("x", {1}, false), w1}, log);
  h = probe("second", {w2, h}, log);  // a leaf before the activation keeps its overlap
  h = probe("third", {h, w3}, log);
  events.clear();
  backward(h, announcing());
  EXPECT_THAT(events, ElementsAre("run third", "end third", "ready w3", "run second", "end second",
                                  "drop second", "ready w2", "run first", "end first", "drop first",
                                  "ready w1"));
}

TEST_F(EngineTest, ATiedLeafIsAnnouncedOnceAfterItsLastContribution) {
  const ProbeOptions log{.events = &events};
  const Variable tied = leaf("tied"), w = leaf("w");
  Variable h = probe("embed", {tied}, log);
  h = probe("hidden", {h, w}, log);
  h = probe("unembed", {tied, h, tied}, log);
  events.clear();
  backward(h, announcing());
  EXPECT_THAT(events,
              ElementsAre("run unembed", "end unembed", "run hidden", "end hidden", "drop hidden",
                          "ready w", "run embed", "end embed", "drop embed", "ready tied"));
  EXPECT_EQ(gradient(tied), 3);
}

// An op announces what it has finished while it still runs, unless others are still to add to it.
TEST_F(EngineTest, WhatAnOpFinishesEarlyIsAnnouncedEarly) {
  const ProbeOptions early{.hand = Hand::early, .events = &events};
  const Variable once = leaf("once"), twice = leaf("twice"), doubled = leaf("doubled");
  const Variable h = probe("first", {twice, doubled, doubled, once}, early);
  backward(probe("second", {h, twice}, early), announcing());
  EXPECT_THAT(events, ElementsAre("run second", "end second", "run first", "ready twice",
                                  "ready once", "end first", "ready doubled", "drop second"));
  EXPECT_EQ(gradient(twice), 2);
  EXPECT_EQ(gradient(doubled), 2);
  EXPECT_EQ(gradient(once), 1);
}

TEST_F(EngineTest, ANodeLearnsWhereItAloneContributes) {
  const auto alone = [&](const Variable& output) {
    autograd::backward(output);
    Events found;
    std::ranges::copy_if(std::exchange(events, {}), std::back_inserter(found),
                         [](const std::string& event) { return event.starts_with("alone"); });
    return found;
  };
  const ProbeOptions asking{.asks = true, .events = &events};
  const Variable a = leaf("a");
  const Variable once = probe("once", {a}, asking);
  EXPECT_EQ(alone(probe("top", {once}, asking)), (Events{"alone once"}));  // never of a leaf
  const Variable twice = probe("twice", {a}, asking);
  EXPECT_EQ(alone(probe("top", {twice, twice}, asking)), Events{});
  // The last of two branches finds the other's contribution.
  const Variable shared = probe("shared", {a}, asking);
  EXPECT_EQ(alone(probe("top", {probe("left", {shared}, asking), probe("right", {shared}, asking)},
                        asking)),
            (Events{"alone left", "alone right"}));
}

TEST_F(EngineTest, ADiamondWaitsForBothSides) {
  const ProbeOptions log{.events = &events};
  const Variable x = leaf("x");
  const Variable top = probe("top", {x}, log);
  const Variable left = probe("left", {top}, log);
  const Variable right = probe("right", {probe("far", {top}, log)}, log);
  events.clear();
  backward(probe("join", {left, right, top}, log), announcing());
  const std::vector<std::string> runs = [&] {
    std::vector<std::string> found;
    for (const std::string& event : events) {
      if (event.starts_with("run")) found.push_back(event);
    }
    return found;
  }();
  EXPECT_THAT(runs, ElementsAre("run join", "run right", "run far", "run left", "run top"));
  EXPECT_EQ(gradient(x), 3);
}

TEST_F(EngineTest, OneVariableMayBeEveryInput) {
  for (const Hand hand : {Hand::write, Hand::give, Hand::mixed}) {
    const Variable x = leaf("x");
    const Variable y = probe("outer", {probe("inner", {x, x, x}, {hand})}, {hand});
    events.clear();
    backward(probe("join", {y, y}, {hand}), announcing());
    EXPECT_EQ(gradient(x), 6);
    EXPECT_THAT(events, ElementsAre("ready x"));
  }
}

// What an op gave away may be shared: adding to one input's gradient must leave the other's alone.
TEST_F(EngineTest, AdoptedGradientsAreNotModified) {
  for (const Hand early : {Hand::write, Hand::give}) {
    for (const Hand late : {Hand::write, Hand::give}) {
      const Variable a = leaf("a"), b = leaf("b");
      const Variable p = probe("p", {a}), q = probe("q", {b});
      const Variable shared = probe("shared", {p, q}, {Hand::give});
      const Variable more = probe("more", {p}, {late});
      // "more" runs before or after "shared", by their place among the inputs.
      const std::vector<Variable> inputs =
          early == Hand::give ? std::vector{shared, more} : std::vector{more, shared};
      backward(probe("join", inputs, {early}));
      EXPECT_EQ(gradient(a), 2);
      EXPECT_EQ(gradient(b), 1);
    }
  }
}

TEST_F(EngineTest, OverwritesGradientsOrAddsToThem) {
  const Variable x = leaf("x");
  BackwardOptions options;
  options.accumulate = true;
  backward(probe("op", {x, x}), options);  // nothing to add to yet
  EXPECT_EQ(gradient(x), 2);
  backward(probe("op", {x, x}), options);
  EXPECT_EQ(gradient(x), 4);
  backward(probe("op", {x, x}));
  EXPECT_EQ(gradient(x), 2);
  Variable(x).set_grad({});
  backward(probe("op", {x}), options);
  EXPECT_EQ(gradient(x), 1);
}

TEST_F(EngineTest, WritesGradientsWhereTheyBelong) {
  const Tensor flat = Tensor::from(context, {8.0f, 8.0f, 8.0f, 8.0f}, {4});
  Variable a = leaf("a", {1}), b = leaf("b", {1});
  a.set_grad(flat.slice(0, 1, 2));
  b.set_grad(flat.slice(0, 2, 3));
  backward(probe("op", {a, b, b}, {Hand::mixed}));
  EXPECT_THAT(flat.elements<float>(), ElementsAre(8, 1, 2, 8));
}

TEST_F(EngineTest, TheSeedScalesEveryGradient) {
  const Variable x = leaf("x");
  BackwardOptions options;
  options.seed_gradient = Tensor::from<double>(context, {0.25}, {1});
  backward(probe("op", {x, x}), options);
  EXPECT_EQ(gradient(x), 0.5);
}

TEST_F(EngineTest, ALeafIsItsOwnGradient) {
  const Variable x = leaf("x", {1, 1});
  BackwardOptions options = announcing();
  options.seed_gradient = Tensor::from<float>(context, {3}, {1});
  backward(x, options);
  EXPECT_EQ(gradient(x), 3);
  EXPECT_THAT(events, ElementsAre("ready x"));
}

TEST_F(EngineTest, FrozenAndUnreachedLeavesAreLeftAlone) {
  const Variable frozen = leaf("frozen", {1}, false), x = leaf("x"), unused = leaf("unused");
  Variable late = leaf("late");
  const Variable dead_end = probe("dead end", {unused});
  const Variable y = probe("op", {frozen, late, x});
  late.set_requires_grad(false);  // after the forward
  backward(y, announcing());
  EXPECT_THAT(events, ElementsAre("ready x"));
  for (const Variable& variable : {frozen, late, unused}) EXPECT_FALSE(variable.grad().defined());
}

TEST_F(EngineTest, GradientsOfFloat64) {
  const Variable x(Tensor::from(context, {2.0}, {}), true);
  backward(probe("op", {x, x}));
  EXPECT_EQ(x.grad().item<double>(), 2);
}

}  // namespace
}  // namespace lockstep::autograd
