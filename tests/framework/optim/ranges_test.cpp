// How the flat buffers are cut into ranges, by whom and in which order, is not seen in the result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "framework/device/cpu/cpu_context.h"
#include "framework/kernels/kernels.h"
#include "framework/nn/init.h"
#include "tests/framework/nn/open_module.h"
#include "tests/framework/optim/optimizer_cases.h"

namespace lockstep::optim {
namespace {

using nn::ParameterArena;

// A model of two dtypes and odd sizes, all the same for a given seed.
class RangesTest : public testing::TestWithParam<Case> {
 protected:
  struct Run {
    nn::OpenModule model;
    std::unique_ptr<ParameterArena> arena;
    std::unique_ptr<Optimizer> optimizer;
  };

  std::unique_ptr<Run> make_run(Context& context) {
    auto run = std::make_unique<Run>();
    int number = 0;
    for (const std::int64_t count : {1, 7, 129, 40000, 33}) {
      for (const DType dtype : {DType::float32, DType::float64}) {
        run->model.register_parameter("p" + std::to_string(number++),
                                      Tensor::empty(context, {count}, dtype), nn::normal(0, 1));
      }
    }
    run->model.initialize(3);
    run->arena =
        std::make_unique<ParameterArena>(context, run->model, std::vector<std::size_t>{4, 1});
    run->optimizer = GetParam().make(*run->arena);
    return run;
  }

  static void draw_gradients(Run& run, std::uint64_t step) {
    for (const auto& segment : run.arena->segments()) {
      for (const auto& entry : segment.entries) {
        nn::normal(0, 1)(entry.parameter.grad(), base::RandomStream(1, entry.name, step));
      }
    }
  }

  static void expect_same_bits(const Tensor& a, const Tensor& b) {
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0);
  }

  static void expect_same_bits(const Run& a, const Run& b) {
    for (std::size_t s = 0; s < a.arena->segments().size(); ++s) {
      expect_same_bits(a.arena->segments()[s].parameters, b.arena->segments()[s].parameters);
      for (std::size_t i = 0; i < a.optimizer->state().size(); ++i) {
        expect_same_bits(a.optimizer->state()[i].segments[s], b.optimizer->state()[i].segments[s]);
      }
    }
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
  const Tensor factor_ = Tensor::from<double>(*context_, {0.7}, {1});
};

INSTANTIATE_TEST_SUITE_P(All, RangesTest, testing::ValuesIn(cases()), name_of_case);

TEST_P(RangesTest, CutsAndTheirOrderDoNotChangeABit) {
  const auto whole = make_run(*context_);
  const auto cut = make_run(*context_);
  std::mt19937 random(2);
  for (std::uint64_t step = 0; step < 5; ++step) {
    draw_gradients(*whole, step);
    draw_gradients(*cut, step);
    whole->optimizer->begin_update(0.1);
    whole->optimizer->apply_all({.factor = factor_});
    cut->optimizer->begin_update(0.1);
    for (std::size_t s = 0; s < cut->arena->segments().size(); ++s) {
      const std::int64_t count = cut->arena->segments()[s].parameters.count();
      std::vector<std::int64_t> borders = {0, count};
      for (int i = 0; i < 9; ++i) {
        borders.push_back(std::uniform_int_distribution<std::int64_t>(0, count)(random));
      }
      std::ranges::sort(borders);  // equal borders make empty ranges
      std::vector<std::size_t> order(borders.size() - 1);
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::shuffle(order, random);
      for (const std::size_t i : order)
        cut->optimizer->apply(s, borders[i], borders[i + 1], {.factor = factor_});
    }
    expect_same_bits(*whole, *cut);
  }
}

// Several optimizers, each with the state of its shard alone, do what one does.
TEST_P(RangesTest, ShardsDoNotChangeABit) {
  constexpr std::int64_t pieces = 7;
  constexpr std::size_t ranks = 3;
  const auto whole = make_run(*context_);
  const auto cut = make_run(*context_);
  std::vector<Shard> shards(ranks, Shard(cut->arena->segments().size()));
  for (std::size_t s = 0; s < cut->arena->segments().size(); ++s) {
    const std::int64_t count = cut->arena->segments()[s].parameters.count();
    for (std::int64_t i = 0; i < pieces; ++i)
      shards[static_cast<std::size_t>(i) % ranks][s].push_back(
          {count * i / pieces, count * (i + 1) / pieces});
  }
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (const Shard& shard : shards) optimizers.push_back(GetParam().make_shard(*cut->arena, shard));
  for (std::uint64_t step = 0; step < 4; ++step) {
    draw_gradients(*whole, step);
    draw_gradients(*cut, step);
    whole->optimizer->begin_update(0.1);
    whole->optimizer->apply_all({.factor = factor_});
    for (const auto& optimizer : optimizers) {
      optimizer->begin_update(0.1);
      optimizer->apply_all({.factor = factor_});
    }
    for (std::size_t s = 0; s < cut->arena->segments().size(); ++s)
      expect_same_bits(whole->arena->segments()[s].parameters,
                       cut->arena->segments()[s].parameters);
  }
  for (std::size_t i = 0; i < whole->optimizer->state().size(); ++i)
    for (std::size_t s = 0; s < cut->arena->segments().size(); ++s) {
      std::int64_t elements = 0;
      for (const auto& optimizer : optimizers)
        elements += optimizer->state()[i].segments[s].count();
      EXPECT_EQ(elements, cut->arena->segments()[s].parameters.count());
    }
  const ElementRange first = shards[0][0].front();
  EXPECT_THROW(optimizers[1]->apply(0, first.begin, first.end), UsageError);
  EXPECT_THROW(optimizers[0]->apply(0, first.begin, first.end + 1), UsageError);
}

TEST_P(RangesTest, ThreadsDoNotChangeABit) {
  const auto three_threads = device::make_cpu_context(3);
  const auto one = make_run(*context_);
  const auto three = make_run(*three_threads);
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (Run* run : {one.get(), three.get()}) {
      draw_gradients(*run, step);
      run->optimizer->begin_update(0.1);
      run->optimizer->apply_all();
    }
  }
  expect_same_bits(*one, *three);
}

TEST_P(RangesTest, PaddingStaysZero) {
  const auto run = make_run(*context_);
  for (std::uint64_t step = 0; step < 3; ++step) {
    draw_gradients(*run, step);
    run->optimizer->begin_update(0.1);
    run->optimizer->apply_all();
  }
  const auto& segment = run->arena->segments()[0];
  const auto values = segment.parameters.elements<float>();
  std::int64_t end = 0;
  std::int64_t padding = 0;
  const auto expect_zero_until = [&](std::int64_t next) {
    for (; end < next; ++end, ++padding) EXPECT_EQ(values[static_cast<std::size_t>(end)], 0.0f);
  };
  for (const auto& entry : segment.entries) {
    expect_zero_until(entry.begin);
    end = entry.end;
  }
  expect_zero_until(segment.parameters.count());
  EXPECT_GT(padding, 0);
}

TEST_P(RangesTest, StateAndUpdatesAreAllThereIsToResume) {
  const auto steady = make_run(*context_);
  const auto step_of = [](Run& run, std::uint64_t step) {
    draw_gradients(run, step);
    run.optimizer->begin_update(0.1);
    run.optimizer->apply_all();
  };
  for (std::uint64_t step = 0; step < 4; ++step) step_of(*steady, step);

  const auto resumed = make_run(*context_);
  const auto& kernels = kernels::kernels_for(*context_);
  for (std::size_t s = 0; s < steady->arena->segments().size(); ++s) {
    kernels.copy(steady->arena->segments()[s].parameters, resumed->arena->segments()[s].parameters);
    for (std::size_t i = 0; i < steady->optimizer->state().size(); ++i) {
      kernels.copy(steady->optimizer->state()[i].segments[s],
                   resumed->optimizer->state()[i].segments[s]);
    }
  }
  resumed->optimizer->set_updates(steady->optimizer->updates());
  for (std::uint64_t step = 4; step < 8; ++step) {
    step_of(*steady, step);
    step_of(*resumed, step);
  }
  EXPECT_EQ(resumed->optimizer->updates(), 8);
  expect_same_bits(*steady, *resumed);
}

}  // namespace
}  // namespace lockstep::optim
