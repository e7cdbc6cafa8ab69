#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "comm/gloo/gloo.h"
#include "comm/nccl/nccl.h"
#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

nlohmann::json comparison(const Sandbox& sandbox, const Program::End& end) {
  const std::string before = "files of this comparison: ";
  const auto at = end.output.find(before) + before.size();
  std::ifstream file(sandbox.path(end.output.substr(at, end.output.find('\n', at) - at)) +
                     "/comparison.json");
  return nlohmann::json::parse(file);
}

TEST(Compare, ShowsAlgorithmsSideBySide) {
  const Sandbox sandbox;
  const auto end = sandbox.run({train_program, "compare", "--config", "config.yaml", "--gpus", "3",
                                "--algorithms", "two_shot,ring", "--steps", "12", "--rounds", "2"});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("two_shot"), HasSubstr("busbw"), HasSubstr("reference")));
  const auto document = comparison(sandbox, end);
  ASSERT_EQ(document["contenders"].size(), 2u);
  for (const auto& contender : document["contenders"]) {
    EXPECT_GT(contender["step_seconds"].get<double>(), 0);
    EXPECT_GT(contender["communication_seconds"].get<double>(), 0);
    EXPECT_EQ(contender["weights"].get<std::string>().size(), 16u);
    EXPECT_GT(contender["reduced_bytes"].get<double>(), 1000);
  }
  EXPECT_EQ(document["contenders"][0]["first_different_step"], 0);
  // Three ranks: the ring sums in another order than the order of the ranks.
  EXPECT_GT(document["contenders"][1]["first_different_step"].get<int>(), 0);
}

TEST(Compare, ShowsBackendsByTheAlgorithmsThatTheyOffer) {
  if (!comm::has_gloo()) GTEST_SKIP() << "Gloo is not in this build";
  const Sandbox sandbox;
  const auto end =
      sandbox.run({train_program, "compare", "--config", "config.yaml", "--gpus", "3", "--backends",
                   "ring,gloo", "--algorithms", "two_shot,bcube", "--steps", "8", "--rounds", "1"});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  const auto document = comparison(sandbox, end);
  ASSERT_EQ(document["contenders"].size(), 2u);
  EXPECT_EQ(document["contenders"][0]["algorithm"], "two_shot");
  EXPECT_EQ(document["contenders"][1]["algorithm"], "bcube");
  const auto unknown = sandbox.run({train_program, "compare", "--config", "config.yaml", "--gpus",
                                    "2", "--algorithms", "three_shot"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output, AllOf(HasSubstr("three_shot"), HasSubstr("two_shot")));
}

TEST(Compare, TellsWhyARunFailed) {
  const Sandbox sandbox;
  // One update, which is none to be measured.
  const auto end =
      sandbox.run({train_program, "compare", "--config", "config.yaml", "--gpus", "2", "--set",
                   "train.epochs=1", "--set", "train.batch_size=1000000", "--rounds", "1"});
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("failed"), HasSubstr("ring auto: it ended after")));
  if (!comm::has_nccl()) return;
  const auto of_gpus =
      sandbox.run({train_program, "compare", "--config", "config.yaml", "--gpus", "2", "--backends",
                   "ring,nccl", "--steps", "8", "--rounds", "1", "--set", "compute.device=cpu"});
  EXPECT_EQ(of_gpus.exit_code, 5) << of_gpus.output;
  EXPECT_THAT(of_gpus.output, AllOf(HasSubstr("failed"), HasSubstr("nccl auto: error:")));
}

TEST(Compare, RefusesBeforeTheFirstRun) {
  const Sandbox sandbox;
  struct Case {
    Arguments arguments;
    std::string word;
  };
  const std::vector<Case> cases = {
      {{"--backends", "ring,carrier_pigeon"}, "carrier_pigeon"},
      {{"--backends", "ring,ring"}, "found ring twice"},
      {{"--algorithms", "two_shot,two_shot"}, "found two_shot twice"},
      {{"--algorithms", "two_shot,bcube"}, "found bcube, which none of ring offers"},
      {{"--backends", "ring,auto", "--algorithms", "two_shot"}, "one that auto offers: auto"},
      {{"--steps", "5"}, "--steps"},
      {{"--set", "optimizer.lr=-1"}, "optimizer.lr"},
      {{"--set", "comm.tuning=two_shot", "--algorithms", "ring"}, "comm.tuning"},
  };
  for (const Case& c : cases) {
    Arguments command{train_program, "compare", "--config", "config.yaml", "--gpus", "2"};
    command.insert(command.end(), c.arguments.begin(), c.arguments.end());
    const auto end = sandbox.run(command);
    EXPECT_EQ(end.exit_code, 2) << c.word << ": " << end.output;
    EXPECT_THAT(end.output, AllOf(HasSubstr(c.word), ::testing::Not(HasSubstr("round 1/"))));
  }
}

}  // namespace
}  // namespace lockstep::tests
