// What docs/hooks.md tells to do, done.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/train/parallel/hooks/majority_vote.h"
#include "tests/train/parallel/toy_training.h"

namespace lockstep::train {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(OwnHook, TrainsEqualReplicas) {
  ToyProblem problem;
  problem.epochs = 1;
  problem.lr = 1e-3;
  problem.replica.buckets = {.bucket_bytes = 256, .first_bucket_bytes = 64};
  problem.replica.make_reduction = majority_vote();
  std::vector<std::vector<double>> parameters(3);
  run_ranks(3, [&](Rank rank) {
    parameters[static_cast<std::size_t>(rank.communicator.rank())] =
        train_toy(rank, problem).parameters;
  });
  EXPECT_EQ(parameters[0], parameters[1]);
  EXPECT_EQ(parameters[0], parameters[2]);
}

TEST(OwnHook, TheMajorityWins) {
  run_ranks(3, [](Rank rank) {
    MajorityVote hook(rank.communicator, rank.context,
                      {{{.segment = 0, .begin = 0, .end = 3, .dtype = DType::float32}}});
    const float mine = static_cast<float>(rank.communicator.rank() - 1);  // -1, 0, 1
    std::vector<float> gradients{mine, mine + 1, -3};
    hook.reduce(0, comm::range_of(std::span(gradients)), rank.context.compute_stream()).work.wait();
    EXPECT_EQ(gradients, (std::vector<float>{0, 1, -1}));
  });
}

// The page shows this very code.
TEST(OwnHook, IsTheOneOfThePage) {
  const std::filesystem::path source(LOCKSTEP_SOURCE_DIR);
  const std::string code = read(source / "tests/train/parallel/hooks/majority_vote.h");
  const std::string page = read(source / "docs/hooks.md");
  ASSERT_FALSE(code.empty());
  const std::string body = code.substr(code.find("class MajorityVote"));
  EXPECT_NE(page.find(body), std::string::npos) << "docs/hooks.md shows other code";
}

}  // namespace
}  // namespace lockstep::train
