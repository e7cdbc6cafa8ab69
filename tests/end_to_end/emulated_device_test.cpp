// START-4 on emulated GPUs: which devices a run takes, and what it says where there are too few.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/end_to_end/emulated_gpus.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Environment devices(int count) {
  return {{"LOCKSTEP_EMULATION_DEVICES", std::to_string(count)}};
}

const Arguments one_step{"train.steps=1"};

TEST(EmulatedDevices, AreListedWhereMoreAreAskedFor) {
  const Sandbox sandbox(few_rows);
  for (const char* const device : {"cuda", "auto"}) {
    Environment two = devices(2);
    two["CUDA_VISIBLE_DEVICES"] = "3,5";
    Arguments command = on_gpus(sandbox, 4, one_step);
    command.insert(command.end(), {"--set", std::string("compute.device=") + device});
    const auto refused = sandbox.run(command, two);
    EXPECT_EQ(refused.exit_code, 5) << refused.output;
    EXPECT_THAT(refused.output,
                AllOf(HasSubstr("asked for 4 GPUs, found 2 that CUDA_VISIBLE_DEVICES=3,5 leaves"),
                      HasSubstr("cuda:0 emulated GPU"), HasSubstr("cuda:1"),
                      HasSubstr("--oversubscribe"), HasSubstr("--device cpu")));
  }
}

TEST(EmulatedDevices, AreSharedWhereAskedFor) {
  const Sandbox sandbox(few_rows);
  const auto shared = sandbox.run(on_gpus(sandbox, 4, one_step, {"--oversubscribe"}), devices(2));
  EXPECT_EQ(shared.exit_code, 0) << shared.output;
  EXPECT_THAT(shared.output, HasSubstr("training with 4 workers on 2 GPUs"));
}

TEST(EmulatedDevices, AreSharedByThreadsOnly) {
  const Sandbox sandbox(few_rows);
  Arguments command{LOCKSTEP_TRAIN_EMULATED, "--config", "config.yaml", "--gpus", "2",
                    "--oversubscribe"};
  const auto unsaid = sandbox.run(command, devices(1));
  EXPECT_EQ(unsaid.exit_code, 0) << unsaid.output;
  command.insert(command.end(), {"--launcher", "processes"});
  const auto processes = sandbox.run(command, devices(1));
  EXPECT_EQ(processes.exit_code, 2) << processes.output;
  EXPECT_THAT(processes.output, HasSubstr("--launcher: found processes, expected threads"));
}

TEST(EmulatedDevices, AreTakenWithoutBeingAskedForWhereThereAreAny) {
  const Sandbox sandbox(few_rows);
  Arguments command =
      sandbox.train(2, {"train.steps=1", "compute.pin=off"}, {"--launcher", "threads"});
  command.front() = LOCKSTEP_TRAIN_EMULATED;
  const auto found = sandbox.run(command);
  EXPECT_EQ(found.exit_code, 0) << found.output;
  EXPECT_THAT(found.output, HasSubstr("training on 2 GPUs"));
  const auto none = sandbox.run(command, devices(0));
  EXPECT_EQ(none.exit_code, 0) << none.output;
  EXPECT_THAT(none.output, HasSubstr("no GPU found ("));
}

// Where GPUs cannot address each other's memory the ring is refused, and auto takes what goes
// through the host (of which programs on emulated GPUs have a test double).
TEST(EmulatedDevices, ThatReachNoOtherAreNotForTheRing) {
  const Sandbox sandbox(few_rows);
  const Environment apart{{"LOCKSTEP_EMULATION_APART", "1"}};
  const auto ring = sandbox.run(on_gpus(sandbox, 2, one_step, {"--backend", "ring"}), apart);
  EXPECT_EQ(ring.exit_code, 5) << ring.output;
  EXPECT_THAT(ring.output, HasSubstr("backend ring cannot work here: the GPUs cannot address"));
  EXPECT_THAT(ring.output, HasSubstr("on this device there are: nccl\n"));
  const auto automatic = sandbox.run(on_gpus(sandbox, 2, one_step), apart);
  EXPECT_EQ(automatic.exit_code, 0) << automatic.output;
  EXPECT_THAT(automatic.output,
              HasSubstr("backend nccl: auto: the GPUs cannot address each other's memory"));
  const auto alone = sandbox.run(on_gpus(sandbox, 1, one_step), apart);
  EXPECT_EQ(alone.exit_code, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("backend ring: auto"));
}

// What only ranks could find out was found when the run's folder was there already.
TEST(EmulatedDevices, RefuseWhatTheirBackendsLackBeforeARun) {
  const Sandbox sandbox(few_rows);
  const std::vector<std::pair<Arguments, const char*>> cases{
      {{"comm.algorithm=halving_doubling"},
       "error: comm.algorithm: found halving_doubling, expected one of auto, ring, two_shot, "
       "one_shot for the backend ring between GPUs"},
      {{"comm.backend=ring+nccl", "comm.ranks_per_host=2"},
       "error: comm.backend: ring+nccl needs as many workers on every host, found 3 on 2 hosts"}};
  for (const auto& [settings, line] : cases) {
    const auto end = sandbox.run(on_gpus(sandbox, 3, settings));
    EXPECT_EQ(end.exit_code, 2) << end.output;
    EXPECT_THAT(end.output, HasSubstr(line));
    EXPECT_FALSE(std::filesystem::exists(sandbox.path("runs")));
  }
}

// No thread of a rank makes a context on another's GPU, the launcher's none at all; after a resume
// too.
TEST(EmulatedDevices, EachAreTheWorldOfOneRank) {
  const Sandbox sandbox(few_rows);
  Environment environment = devices(3);
  environment["LOCKSTEP_EMULATION_CONTEXTS"] = "1";
  const auto first = sandbox.run(on_gpus(sandbox, 3, one_step), environment);
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const auto resumed = sandbox.run(
      on_gpus(sandbox, 3, {}, {"--resume", newest_checkpoint_of(run_folder(sandbox, first))}),
      environment);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  for (const std::string& output : {first.output, resumed.output}) {
    EXPECT_THAT(output, Not(HasSubstr("thread 1 uses")));  // the launcher's
    for (const char* const device : {"cuda:0", "cuda:1", "cuda:2"})
      EXPECT_THAT(output, HasSubstr(std::string(" uses ") + device + "\n"));
    for (const char* const pair : {"cuda:0 cuda", "cuda:1 cuda"})
      EXPECT_THAT(output, Not(HasSubstr(pair)));
  }
}

}  // namespace
}  // namespace lockstep::tests
