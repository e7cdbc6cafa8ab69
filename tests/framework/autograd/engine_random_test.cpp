// Random graphs, alone, in several threads and inside each other.
#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "tests/framework/autograd/fixture.h"

namespace lockstep::autograd {
namespace {

// A graph of probes over some leaves. The gradient of a leaf is the number of paths to it.
class RandomGraph {
 public:
  RandomGraph(Context& context, unsigned seed) : random_(seed) {
    const float one[] = {1.0f};
    const std::size_t leaves = 1 + pick(5), nodes = 1 + pick(30);
    for (std::size_t i = 0; i < leaves; ++i) {
      add(Variable(Tensor::from(context, std::span<const float>(one), {1}), pick(5) != 0,
                   "leaf " + std::to_string(i)),
          {});
    }
    leaves_ = leaves;
    for (std::size_t i = 0; i < nodes; ++i) names_.push_back("node " + std::to_string(i));
    for (std::size_t i = 0; i < nodes; ++i) {
      std::vector<std::size_t> inputs(1 + pick(3));
      for (std::size_t& input : inputs) input = pick(variables_.size());
      if (i + 1 == nodes) inputs.push_back(0);
      std::vector<Variable> operands;
      for (const std::size_t input : inputs) operands.push_back(variables_[input]);
      const Hand hands[] = {Hand::write, Hand::give, Hand::mixed};
      add(probe(names_[i], operands, {.hand = hands[pick(3)], .events = &events_}), inputs);
    }
  }

  // Announcements checked, gradients of the leaves returned in order; 0 where there is none.
  std::vector<float> run() {
    if (!variables_.back().requires_grad()) return {};
    BackwardOptions options;
    options.on_gradient_ready = [this](const Variable& leaf, std::int64_t, std::int64_t) {
      events_.push_back("ready " + leaf.name());
    };
    events_.clear();
    backward(variables_.back(), options);
    const std::vector<float> paths = count_paths();
    check_events(paths);
    std::vector<float> gradients;
    for (std::size_t i = 0; i < leaves_; ++i) {
      const Variable& leaf = variables_[i];
      const bool reached = leaf.requires_grad() && paths[i] > 0;
      EXPECT_EQ(leaf.grad().defined(), reached);
      gradients.push_back(reached ? leaf.grad().item<float>() : 0);
      EXPECT_EQ(gradients.back(), reached ? paths[i] : 0);
    }
    return gradients;
  }

  const Events& events() const { return events_; }

 private:
  std::size_t pick(std::size_t below) { return random_() % below; }

  void add(Variable variable, std::vector<std::size_t> inputs) {
    variables_.push_back(std::move(variable));
    inputs_.push_back(std::move(inputs));
  }

  std::vector<float> count_paths() const {
    std::vector<float> paths(variables_.size(), 0.0f);
    paths.back() = 1;
    for (std::size_t i = paths.size(); i-- > 0;) {
      for (const std::size_t input : inputs_[i]) paths[input] += paths[i];
    }
    return paths;
  }

  // Where `event` stands; it must stand there exactly once, or never if `expected` is false.
  std::ptrdiff_t place_of(const std::string& event, bool expected) const {
    EXPECT_EQ(std::count(events_.begin(), events_.end(), event), expected ? 1 : 0) << event;
    return std::find(events_.begin(), events_.end(), event) - events_.begin();
  }

  // Every reached node runs once and after all its consumers; every reached leaf is announced once,
  // after its last consumer and before the next node runs.
  void check_events(const std::vector<float>& paths) const {
    std::vector<std::ptrdiff_t> last_use(variables_.size(), -1);
    for (std::size_t i = variables_.size(); i-- > 0;) {
      const bool reached = paths[i] > 0 && variables_[i].requires_grad();
      if (i < leaves_) {
        const std::ptrdiff_t ready = place_of("ready " + variables_[i].name(), reached);
        if (!reached) continue;
        EXPECT_GT(ready, last_use[i]);
        EXPECT_TRUE(std::none_of(events_.begin() + last_use[i], events_.begin() + ready,
                                 [](const std::string& e) { return e.starts_with("run"); }));
      } else {
        const std::string& name = names_[i - leaves_];
        const std::ptrdiff_t run = place_of("run " + name, reached);
        if (!reached) continue;
        EXPECT_GT(run, last_use[i]);
        const std::ptrdiff_t end = place_of("end " + name, true);
        for (const std::size_t input : inputs_[i]) last_use[input] = std::max(last_use[input], end);
      }
    }
  }

  std::mt19937 random_;
  Events events_;
  std::vector<std::string> names_;
  std::vector<Variable> variables_;
  std::vector<std::vector<std::size_t>> inputs_;
  std::size_t leaves_ = 0;
};

using EngineRandom = AutogradTest;

TEST_F(EngineRandom, GradientsAndAnnouncementsAreRight) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph(context, seed).run();
  }
}

TEST_F(EngineRandom, TheOrderIsTheSameEachTime) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    RandomGraph first(context, seed), second(context, seed);
    first.run();
    second.run();
    EXPECT_EQ(first.events(), second.events());
  }
}

TEST_F(EngineRandom, RanksAreIndependentThreads) {
  constexpr unsigned ranks = 4, graphs = 40;
  std::vector<std::vector<float>> results(ranks);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&result = results[rank]] {
      const std::unique_ptr<Context> own = device::make_cpu_context();
      for (unsigned seed = 0; seed < graphs; ++seed) {
        for (const float gradient : RandomGraph(*own, seed).run()) result.push_back(gradient);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (unsigned rank = 1; rank < ranks; ++rank) EXPECT_EQ(results[rank], results[0]);
}

TEST_F(EngineRandom, ABackwardMayRunInsideAnother) {
  const Variable outer = leaf("outer"), last = leaf("last"), inner = leaf("inner");
  BackwardOptions options;
  options.on_gradient_ready = [&](const Variable& ready, std::int64_t, std::int64_t) {
    events.push_back("ready " + ready.name());
    if (!ready.same_as(outer)) return;
    backward(probe("nested", {inner, probe("nested", {inner})}), announcing());
  };
  backward(probe("op", {outer, probe("op", {last, last})}), options);
  EXPECT_THAT(events, testing::ElementsAre("ready outer", "ready inner", "ready last"));
  EXPECT_EQ(gradient(outer), 1);
  EXPECT_EQ(gradient(last), 2);
  EXPECT_EQ(gradient(inner), 2);
}

}  // namespace
}  // namespace lockstep::autograd
