// The same training over every backend, and what a user sees when one of them cannot go on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "comm/backend.h"
#include "comm/gloo/gloo.h"
#include "tests/end_to_end/sandbox.h"
#include "tests/end_to_end/surroundings.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OverBackend : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const comm::Backend* found = nullptr;
    for (const comm::Backend& backend : comm::backends())
      if (backend.name == GetParam()) found = &backend;
    ASSERT_NE(found, nullptr);
    if (!found->built_in) GTEST_SKIP() << GetParam() << " is not in this build";
    if (!found->missing().empty()) GTEST_SKIP() << found->missing();
  }
  Arguments train(const Sandbox& sandbox, int workers, const Arguments& settings = {}) const {
    Arguments all = settings;
    // Hierarchical ones get two hosts to work on.
    if (GetParam().find('+') != std::string::npos) all.emplace_back("comm.ranks_per_host=2");
    return sandbox.train(workers, all, {"--backend", GetParam()});
  }
};
INSTANTIATE_TEST_SUITE_P(All, OverBackend,
                         ::testing::Values("ring", "gloo", "mpi", "ring+gloo", "ring+mpi"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

// Sums are formed in another order, so weights agree up to rounding; with itself, to the bit.
TEST_P(OverBackend, TrainsTheSameModel) {
  const Sandbox sandbox;
  const Arguments settings{"consistency.every=1"};
  const auto one = sandbox.run(sandbox.train(1));
  ASSERT_EQ(one.exit_code, 0) << one.output;
  const auto expected = parameters_of(newest_checkpoint_of(run_folder(sandbox, one)));
  std::string weights;
  for (int round = 0; round < 2; ++round) {
    const auto end = sandbox.run(train(sandbox, 4, settings));
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_THAT(end.output, HasSubstr("backend " + GetParam()));
    const auto found = parameters_of(newest_checkpoint_of(run_folder(sandbox, end)));
    EXPECT_LT(largest_relative_difference(expected, found), 1e-5);
    if (round > 0) {
      EXPECT_EQ(final_weights(end), weights);
    }
    weights = final_weights(end);
  }
}

// HANG-1
TEST_P(OverBackend, AKilledWorkerEndsTheRunAndIsNamed) {
  const Sandbox sandbox;
  Program program(train(sandbox, 4, {"train.epochs=100000", "comm.timeout=600"}),
                  sandbox.options());
  program.wait_for_output("epoch 2/100000 done");
  kill(program.worker(3), SIGKILL);
  const auto killed_at = std::chrono::steady_clock::now();
  const auto end = program.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - killed_at, std::chrono::seconds(10));
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("rank 3"), HasSubstr("signal 9"), HasSubstr("step")));
  EXPECT_TRUE(program.is_gone(std::chrono::seconds(1)));
}

// HANG-4
TEST_P(OverBackend, ARankThatDoesNotStartIsNamed) {
  const Sandbox sandbox;
  const auto end = sandbox.run(train(sandbox, 4, {"comm.start_timeout=3"}),
                               {{"TRAIN_FAULT", "rank=2,at=start,do=stall:60"}});
  EXPECT_EQ(end.exit_code, 5) << end.output;
  EXPECT_GE(end.seconds, 3);
  EXPECT_LT(end.seconds, 20);  // and not the 60 that the rank would stall
  EXPECT_THAT(end.last_line, HasSubstr("rank 2"));
}

// HANG-4b
TEST_P(OverBackend, ARankThatStallsIsNamed) {
  const Sandbox sandbox;
  const auto end = sandbox.run(train(sandbox, 4, {"comm.timeout=3"}),
                               {{"TRAIN_FAULT", "rank=1,step=5,at=before_allreduce,do=stall:60"}});
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_LT(end.seconds, 40);  // and not the 60 that the rank would stall
  EXPECT_THAT(end.last_line, HasSubstr("rank 1 did not arrive"));
}

// Frozen wherever it happens to be, in the middle of a collective too.
TEST_P(OverBackend, AFrozenWorkerIsNamed) {
  const Sandbox sandbox;
  Program program(train(sandbox, 4, {"train.epochs=100000", "comm.timeout=2"}), sandbox.options());
  program.wait_for_output("epoch 2/100000 done");
  kill(program.worker(2), SIGSTOP);
  const auto frozen_at = std::chrono::steady_clock::now();
  const auto end = program.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - frozen_at, std::chrono::seconds(12));
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.last_line, HasSubstr("rank 2 did not"));
  EXPECT_TRUE(program.is_gone(std::chrono::seconds(1)));
}

// HANG-2
TEST_P(OverBackend, AnErrorOnOneRankIsTheCause) {
  const Sandbox sandbox;
  const auto end =
      sandbox.run(train(sandbox, 4), {{"TRAIN_FAULT", "rank=2,step=7,at=read,do=raise"}});
  EXPECT_EQ(end.exit_code, 3) << end.output;
  EXPECT_LT(end.seconds, 15);
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("rank 2"), HasSubstr("step 7")));
}

// SEC-1: nothing of a run listens while it trains.
TEST_P(OverBackend, NoRankListens) {
  const Sandbox sandbox;
  Program program(train(sandbox, 4, {"train.epochs=100000"}), sandbox.options());
  program.wait_for_output("epoch 2/100000 done");
  for (const pid_t pid : program.running()) EXPECT_EQ(listening_ports_of(pid), "") << pid;
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().exit_code, 143);
}

// START-2
TEST_P(OverBackend, TrainsWithoutNamesOrNetwork) {
  if (!may_make_namespaces()) GTEST_SKIP() << "network namespaces need root here";
  const Sandbox sandbox;
  const auto end =
      sandbox.run(in_namespace("does-not-resolve", train(sandbox, 4, {"train.epochs=1"})));
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

// The ranks' connections are cut all at once; those to the launcher are no network's.
class OverTcp : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, OverTcp, ::testing::Values("gloo", "ring+gloo"),
                         [](const auto& test) {
                           return test.param == "gloo" ? "gloo" : "ring_gloo";
                         });

TEST_P(OverTcp, ACutLinkEndsTheRun) {
  if (!may_make_namespaces()) GTEST_SKIP() << "network namespaces need root here";
  if (!comm::has_gloo()) GTEST_SKIP() << "Gloo is not in this build";
  const Sandbox sandbox;
  Arguments settings{"train.epochs=100000", "comm.timeout=2"};
  if (GetParam() != "gloo") settings.emplace_back("comm.ranks_per_host=2");
  const Arguments command = sandbox.train(4, settings, {"--backend", GetParam()});
  Program program(in_namespace("host", command), sandbox.options());
  program.wait_for_output("epoch 2/100000 done");
  const std::string cut =
      fmt::format("nsenter --net=/proc/{}/ns/net ip link set lo down", program.pid());
  ASSERT_EQ(std::system(cut.c_str()), 0);
  const auto cut_at = std::chrono::steady_clock::now();
  const auto end = program.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - cut_at, std::chrono::seconds(12));
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.last_line, ::testing::AnyOf(HasSubstr("did not arrive"), HasSubstr("are cut"),
                                              HasSubstr("was lost")))
      << end.output;
  EXPECT_TRUE(program.is_gone(std::chrono::seconds(1)));
}

// COLL-3
TEST(Backend, ThatCannotWorkHereSaysWhy) {
  const Sandbox sandbox;
  const auto nccl = sandbox.run(sandbox.train(2, {"compute.device=cpu"}, {"--backend", "nccl"}));
  EXPECT_THAT(nccl.exit_code, ::testing::AnyOf(2, 5)) << nccl.output;
  EXPECT_THAT(nccl.output, AllOf(HasSubstr("nccl"), HasSubstr("ring")));
  const auto threads =
      sandbox.run(sandbox.train(2, {}, {"--backend", "mpi", "--launcher", "threads"}));
  EXPECT_EQ(threads.exit_code, 2) << threads.output;
  const auto algorithm = sandbox.run(sandbox.train(2, {"comm.algorithm=bcube"}));
  EXPECT_EQ(algorithm.exit_code, 2) << algorithm.output;
  EXPECT_THAT(algorithm.output, AllOf(HasSubstr("bcube"), HasSubstr("two_shot")));
}

class UnderMpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const comm::Backend& backend : comm::backends())
      if (backend.name == "mpi" && (!backend.built_in || !backend.missing().empty()))
        GTEST_SKIP() << "MPI is not here";
  }
  static Arguments mpirun(int ranks, Arguments command) {
    const Arguments before{"mpirun", "--allow-run-as-root", "--oversubscribe", "-q",
                           "-n",     std::to_string(ranks)};
    command.insert(command.begin(), before.begin(), before.end());
    return command;
  }
  Sandbox sandbox_;
};

TEST_F(UnderMpirun, TheRanksTakeThePlacesOfItsProcesses) {
  const auto alone = sandbox_.run(sandbox_.train(4, {}, {"--backend", "mpi"}));
  const auto end = sandbox_.run(mpirun(4, sandbox_.train(4, {}, {"--backend", "mpi"})));
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("world size 4"));
  EXPECT_EQ(final_weights(end), final_weights(alone));
  Arguments without_gpus{train_program, "--config", "config.yaml", "--backend", "mpi"};
  const auto counted = sandbox_.run(mpirun(4, without_gpus));
  EXPECT_EQ(counted.exit_code, 0) << counted.output;
  EXPECT_EQ(final_weights(counted), final_weights(alone));
}

// However a run ends, nothing is left of the files in which its MPI meets.
class MpiFiles : public UnderMpirun {
 protected:
  // The files of MPI that the ranks of a run that trains have mapped, and the folder of its job.
  // Other runs on this machine, of tests beside this one too, have files of the same kind.
  static std::set<std::string> files_of(const Program& program) {
    program.wait_for_output("epoch 2/100000 done");
    std::set<std::string> found;
    for (int rank = 0; rank < ranks; ++rank) {
      std::ifstream maps(fmt::format("/proc/{}/maps", program.worker(rank)));
      for (std::string line; std::getline(maps, line);) {
        const std::string file = line.substr(std::min(line.find('/'), line.size()));
        for (const char* prefix : {"/dev/shm/lockstep-mpi-", "/tmp/lockstep-mpi-"})
          if (file.starts_with(prefix))
            found.insert(file.substr(0, file.find('/', std::strlen(prefix))));
        for (const char* part : {"/lockstep-mpi-", "/vader_segment.", "/ompi."})
          if (file.find(part) != std::string::npos) found.insert(file);
      }
    }
    EXPECT_THAT(found, ::testing::Not(::testing::IsEmpty()));
    return found;
  }
  // Those that are still there once the ends of all processes had their time.
  static std::vector<std::string> left(const std::set<std::string>& files) {
    std::vector<std::string> there;
    for (int attempt = 0; attempt < 500; ++attempt) {
      there.clear();
      std::copy_if(files.begin(), files.end(), std::back_inserter(there),
                   [](const std::string& file) { return std::filesystem::exists(file); });
      if (there.empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return there;
  }
  Arguments long_run() const {
    return sandbox_.train(ranks, {"train.epochs=100000"}, {"--backend", "mpi"});
  }
  static constexpr int ranks = 3;
};

TEST_F(MpiFiles, AreGoneWhenARankWasKilled) {
  Program program(long_run(), sandbox_.options());
  const auto files = files_of(program);
  kill(program.worker(1), SIGKILL);
  EXPECT_EQ(program.wait().exit_code, 6);
  EXPECT_THAT(left(files), ::testing::IsEmpty());
}

TEST_F(MpiFiles, AreGoneWhenTheLauncherWasKilled) {
  Program program(long_run(), sandbox_.options());
  const auto files = files_of(program);
  program.signal(SIGKILL);
  program.wait();
  EXPECT_TRUE(program.is_gone(std::chrono::seconds(5)));
  EXPECT_THAT(left(files), ::testing::IsEmpty());
}

TEST_F(MpiFiles, AreGoneWhenARankUnderMpirunWasKilled) {
  Program program(mpirun(ranks, long_run()), sandbox_.options());
  const auto files = files_of(program);
  kill(program.worker(1), SIGKILL);
  EXPECT_NE(program.wait().exit_code, 0);
  EXPECT_THAT(left(files), ::testing::IsEmpty());
}

// COLL-3: the module is there and MPI is not.
TEST_F(UnderMpirun, WithoutTheLibraryOtherBackendsWorkAndMpiSaysWhy) {
  if (!may_make_namespaces()) GTEST_SKIP() << "mounts need root here";
  const auto hidden = [&](const std::string& backend) {
    std::string line =
        "for f in $(ldconfig -p | grep -o '/.*libmpi.so.*'); do mount --bind /dev/null $f; done; "
        "exec";
    for (const auto& word : sandbox_.train(2, {"train.epochs=1"}, {"--backend", backend}))
      line += " '" + word + "'";
    return sandbox_.run({"unshare", "--mount", "sh", "-c", line});
  };
  const auto mpi = hidden("mpi");
  EXPECT_EQ(mpi.exit_code, 5) << mpi.output;
  EXPECT_THAT(mpi.last_line, AllOf(HasSubstr("no MPI could be loaded"), HasSubstr("libmpi")));
  EXPECT_EQ(hidden("ring").exit_code, 0);
}

TEST_F(UnderMpirun, AnotherNumberOfWorkersIsRefused) {
  const auto end = sandbox_.run(mpirun(2, sandbox_.train(4, {}, {"--backend", "mpi"})));
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.output, HasSubstr("mpirun started 2"));
}

}  // namespace
}  // namespace lockstep::tests
