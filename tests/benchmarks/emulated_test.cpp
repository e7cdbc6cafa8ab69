// The benchmarks on emulated GPUs, with the options of tests/gpu/run:
// that they run and what they write, never how fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/program.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BenchmarkOnEmulatedGpus : public testing::Test {
 protected:
  BenchmarkOnEmulatedGpus()
      : file_(fs::temp_directory_path() /
              ("benchmark-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name() + ".json")) {}
  ~BenchmarkOnEmulatedGpus() override { fs::remove(file_); }

  Program::End run_benchmark(const std::string& name, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     std::string(LOCKSTEP_EMULATED_BENCHMARKS) + "/" + name + "_emulated");
    arguments.insert(arguments.end(), {"--device", "cuda", "--json", file_});
    return run(arguments);
  }
  Program::End run_ranks(const std::string& name, std::vector<std::string> arguments) const {
    // Emulated threads take turns, which costs much where they are kept on different cores.
    arguments.insert(arguments.end(), {"--launcher", "threads", "--pin", "off"});
    return run_benchmark(name, std::move(arguments));
  }
  std::vector<nlohmann::json> lines() const {
    std::ifstream file(file_);
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(file, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
  nlohmann::json whole() const {
    std::ifstream file(file_);
    return nlohmann::json::parse(file);
  }

 private:
  std::string file_;
};

// Nine ranks share the eight GPUs.
TEST_F(BenchmarkOnEmulatedGpus, TrainStepWritesALineForEachWorld) {
  const auto end = run_ranks("train_step", {"--hidden", "8", "--batch", "18", "--steps", "2",
                                            "--warmup", "1", "--workers", "1,2,9"});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("784-8-10"), HasSubstr("threads on cuda"),
                                HasSubstr("floor measured on emulated GPU")));
  const auto rows = lines();
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("device"), "cuda");
    EXPECT_EQ(row.at("backend"), "ring");
    for (const char* const key : {"median", "compute", "floor", "samples_per_second"})
      EXPECT_GT(row.at(key), 0) << key;
  }
  EXPECT_EQ(rows[2].at("workers"), 9);
}

TEST_F(BenchmarkOnEmulatedGpus, TrainStepTakesHooksAndShardsThere) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--hook", "bf16", "--overlap", "off"},
        std::vector<std::string>{"--hook", "power_sgd"},
        std::vector<std::string>{"--sharding", "optimizer", "--optimizer", "adam",
                                 "--no-compute"}}) {
    std::vector<std::string> arguments{"--hidden", "8",        "--batch", "6",         "--steps",
                                       "2",        "--warmup", "1",       "--workers", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto end = run_ranks("train_step", arguments);
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_EQ(lines().size(), 1u);
  }
}

TEST_F(BenchmarkOnEmulatedGpus, AllReduceChecksItsSums) {
  const auto end = run_ranks(
      "all_reduce", {"--ranks", "3", "--min", "1KiB", "--max", "64KiB", "--factor", "8",
                     "--iterations", "2", "--rounds", "1", "--check", "--backend", "ring"});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  const auto rows = whole().at("rows");
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) EXPECT_EQ(row.at("wrong"), 0);
}

TEST_F(BenchmarkOnEmulatedGpus, KernelsAreAllTimed) {
  const auto end =
      run_benchmark("kernels", {"--sizes", "tiny", "--seconds", "1e-9", "--products", "tf32"});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("emulated GPU"), HasSubstr("products tf32")));
  const auto report = whole();
  EXPECT_GT(report.at("peak_gflops"), 0);
  EXPECT_GT(report.at("copy_gbs"), 0);
  std::set<std::string> names;
  for (const auto& row : report.at("rows")) {
    names.insert(row.at("kernel"));
    for (const char* const key : {"us", "MB or MFLOP", "floor us", "share"})
      EXPECT_GT(row.at(key), 0) << row.dump();
  }
  for (const char* const name :
       {"matmul NT", "linear, bias, gelu_tanh", "softmax", "group positions", "digest",
        "batch norm", "dropout", "adam", "hook top_k", "hook power_sgd"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

}  // namespace
}  // namespace lockstep::tests
