// MEM-1: what a run keeps in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <fstream>
#include <stdexcept>

#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {
namespace {

using ::testing::HasSubstr;

// A figure of /proc/<pid>/<file> in bytes; the file gives KiB.
double memory_of(pid_t process, const std::string& file, const std::string& key) {
  std::ifstream lines("/proc/" + std::to_string(process) + "/" + file);
  std::string word;
  while (lines >> word)
    if (word == key + ":" && lines >> word) return std::stod(word) * 1024;
  throw std::runtime_error("no " + key + " of process " + std::to_string(process));
}

TEST(SlowMemory, DoesNotGrowWhileTraining) {
  const Sandbox sandbox;
  Program program(sandbox.train(4, {"train.epochs=1000", "train.steps=2000", "train.log_every=100",
                                    "optimizer.momentum=0.9", "checkpoint.every_epochs=null"}),
                  sandbox.options());
  const auto resident = [&] {
    std::vector<double> bytes;
    for (int rank = 0; rank < 4; ++rank)
      bytes.push_back(memory_of(program.worker(rank), "status", "VmRSS"));
    return bytes;
  };
  program.wait_for_output("step 200/2000");
  const auto early = resident();
  program.wait_for_output("step 1800/2000");
  const auto late = resident();
  EXPECT_EQ(program.wait().exit_code, 0);
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_LT(late[rank], 1.01 * early[rank]) << rank;
}

// All memory of the workers of a run; pages that several share count once.
double total_memory(const Sandbox& sandbox, const std::string& hidden, std::string& output) {
  Program program(
      sandbox.train(4, {"train.epochs=100000", "train.log_every=1", "optimizer.momentum=0.9",
                        "model.hidden=" + hidden, "checkpoint.every_epochs=null",
                        "consistency.every=1", "train.evaluate_every=0"}),
      sandbox.options());
  program.wait_for_output("step 6/");
  double bytes = 0;
  for (int rank = 0; rank < 4; ++rank)
    bytes += memory_of(program.worker(rank), "smaps_rollup", "Pss");
  output = program.output();
  program.signal(SIGTERM);
  program.wait();
  return bytes;
}

// A model of 64 MB: weights, gradients and momentum, and next to nothing for the buckets, which are
// ranges of the gradients. Activations of 16 rows and staging of fixed size make the rest.
TEST(SlowMemory, HoldsNoCopyOfGradients) {
  const Sandbox sandbox;
  std::string output;
  const double small = total_memory(sandbox, "[16]", output);
  const double large = total_memory(sandbox, "[4000, 4000]", output);
  const double parameters = 4.0 * (12 * 4000 + 4000 + 4000 * 4000 + 4000 + 4000 * 5 + 5);
  EXPECT_THAT(output, HasSubstr("the buckets take no memory of their own"));
  EXPECT_GT(large - small, 4 * 3 * parameters * 0.99);
  EXPECT_LT(large - small, 4 * (3 * parameters + (4 << 20)));
}

}  // namespace
}  // namespace lockstep::tests
