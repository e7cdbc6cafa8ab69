#include "train/parallel/reduction_state.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "tests/train/parallel/hooks/hook_harness.h"

namespace lockstep::train {
namespace {

using Saved = std::map<std::string, std::vector<float>>;

ReductionFactory top_k() {
  return make_hook("top_k", {.top_k_ratio = 0.1});
}

double gradient(int rank, std::int64_t i) {
  return static_cast<double>((i * 5 + rank * 3) % 17 - 8);
}

// What rank 0 has of all ranks' state after two steps of `size` ranks.
Saved save(int size) {
  Saved saved;
  run_ranks(size, [&](Rank rank) {
    HookHarness harness(rank, top_k(), 4, 16);
    for (int step = 1; step <= 2; ++step)
      harness.step([&](std::int64_t i) { return gradient(rank.communicator.rank(), i); }, step);
    const auto all = gather_reduction_state(harness.hook(), rank.communicator, rank.context,
                                            rank.context.compute_stream());
    EXPECT_EQ(all.empty(), rank.communicator.rank() != 0);
    for (const auto& [path, values] : all) {
      if (values.dtype() != DType::float32) continue;
      saved[path] = values.to_vector<float>();
    }
  });
  return saved;
}

// The residuals of the weight after `ranks` ranks' state was restored on `size` ranks.
std::vector<std::vector<float>> restore(const Saved& saved, int ranks, int size) {
  std::vector<std::vector<float>> residuals(static_cast<std::size_t>(size));
  run_ranks(size, [&](Rank rank) {
    HookHarness harness(rank, top_k(), 4, 16);
    restore_reduction_state(harness.hook(), rank.communicator, rank.context, ranks,
                            [&](const std::string& path, const Tensor& values) {
                              if (values.dtype() != DType::float32) return;
                              const auto& from = saved.at(path);
                              rank.context.upload(values.data(), from.data(), values.bytes());
                            });
    residuals[static_cast<std::size_t>(rank.communicator.rank())] =
        harness.state<float>("residual/weight");
  });
  return residuals;
}

TEST(ReductionState, ComesBackToTheRankThatLeftIt) {
  const Saved saved = save(3);
  const auto restored = restore(saved, 3, 3);
  for (int r = 0; r < 3; ++r)
    EXPECT_EQ(restored[static_cast<std::size_t>(r)],
              saved.at("rank" + std::to_string(r) + "/residual/weight"));
  EXPECT_NE(restored[0], restored[1]);
}

TEST(ReductionState, IsSharedOutAmongAnotherNumberOfRanks) {
  const Saved saved = save(3);
  for (const int size : {1, 2, 5}) {
    const auto restored = restore(saved, 3, size);
    for (std::size_t i = 0; i < restored[0].size(); ++i) {
      double before = 0, after = 0;
      for (int r = 0; r < 3; ++r)
        before += static_cast<double>(saved.at("rank" + std::to_string(r) + "/residual/weight")[i]);
      for (const auto& residual : restored) after += static_cast<double>(residual[i]);
      EXPECT_NEAR(after, before, 1e-5);
    }
  }
}

TEST(ReductionState, OfThePlainSumIsNothing) {
  run_ranks(2, [](Rank rank) {
    comm::AllReduction plain(rank.communicator);
    EXPECT_TRUE(gather_reduction_state(plain, rank.communicator, rank.context,
                                       rank.context.compute_stream())
                    .empty());
  });
}

}  // namespace
}  // namespace lockstep::train
