// The all-reduce benchmark as a user runs it, and the pictures made of what it writes.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "train/tuning_file.h"

namespace lockstep::tests {

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string programs = LOCKSTEP_BENCHMARKS;
const std::string scripts = std::string(LOCKSTEP_SOURCE) + "/benchmarks";

class AllReduceBenchmark : public testing::Test {
 protected:
  AllReduceBenchmark()
      : folder_(fs::temp_directory_path() /
                ("benchmark-" + std::to_string(getpid()) + "-" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
  }
  ~AllReduceBenchmark() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  static Program::End all_reduce(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), programs + "/all_reduce");
    return run(arguments);
  }

 private:
  fs::path folder_;
};

TEST_F(AllReduceBenchmark, ChecksItsSumsAndWritesThreeForms) {
  const auto end = all_reduce({"--ranks", "3", "--max", "64KiB", "--iterations", "5", "--check",
                               "--json", path("a.json"), "--csv", path("a.csv")});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("algbw"), HasSubstr("busbw"), HasSubstr("wrong")));
  const auto json = nlohmann::json::parse(read("a.json"));
  EXPECT_EQ(json.at("ranks"), 3);
  ASSERT_EQ(json.at("rows").size(), 3u);
  for (const auto& row : json.at("rows")) {
    EXPECT_EQ(row.at("wrong"), 0);
    EXPECT_GT(row.at("fused_floor"), 0);
    EXPECT_NEAR(row.at("busbw").get<double>(), row.at("algbw").get<double>() * 4 / 3, 1e-3);
  }
  const std::string csv = read("a.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
}

TEST_F(AllReduceBenchmark, EveryTypeAndOperationIsRight) {
  for (const char* const type : {"float64", "bfloat16", "float16", "int32", "int64", "uint8"}) {
    const std::string op = std::string(type).find("int") == std::string::npos ? "avg" : "max";
    const auto end = all_reduce({"--ranks", "2", "--launcher", "threads", "--max", "4KiB", "--type",
                                 type, "--op", op, "--iterations", "2", "--check", "--no-floors",
                                 "--stream", "thread", "--json", path("a.json")});
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_EQ(nlohmann::json::parse(read("a.json")).at("rows").at(0).at("wrong"), 0) << type;
  }
}

TEST_F(AllReduceBenchmark, ShowsItsOptionsAndSaysWhatIsWrong) {
  for (const char* const program : {"all_reduce", "kernels", "train_step"}) {
    const auto help = run({programs + "/" + program, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.output, AllOf(HasSubstr("Usage"), HasSubstr("--json")));
  }
  struct Case {
    std::vector<std::string> arguments;
    std::string word;
  };
  const std::vector<Case> cases = {
      {{"--ranks", "many"}, "--ranks"},
      {{"--nonsense"}, "--nonsense"},
      {{"--min", "1MiB", "--max", "4KiB"}, "at most --max, which is 4KiB"},
      {{"--min", "much"}, "--min"},
      {{"--max", "much"}, "is not a size"},
      {{"--iterations", "-1"}, "--iterations"},
      {{"--warmup", "-2"}, "--warmup"},
      {{"--tune", ""}, "--tune"},
      {{"--backend", "gloo", "--tune", path("t.yaml")}, "--tune"},
      {{"--algorithm", "bcube", "--backend", "ring"}, "bcube"},
      {{"--type", "int32", "--op", "avg", "--ranks", "2", "--no-floors"}, "avg of int32"},
  };
  for (const Case& c : cases) {
    const auto end = all_reduce(c.arguments);
    EXPECT_EQ(end.exit_code, 2) << c.word << ": " << end.output;
    EXPECT_THAT(end.output, HasSubstr(c.word));
  }
}

TEST_F(AllReduceBenchmark, FilesAreTriedBeforeAnythingIsMeasured) {
  for (const char* const option : {"--json", "--csv", "--tune", "--record"}) {
    const auto end = all_reduce({"--ranks", "2", "--algorithm",
                                 std::string(option) == "--record" ? "ring" : "auto", option,
                                 path("no/such/folder")});
    EXPECT_EQ(end.exit_code, 2) << end.output;
    EXPECT_THAT(end.output, AllOf(HasSubstr(option), HasSubstr("cannot write to")));
    EXPECT_THAT(end.output, ::testing::Not(HasSubstr("algbw")));
  }
  std::ofstream(path("there.json")) << "kept";
  EXPECT_EQ(all_reduce({"--json", path("there.json"), "--ranks", "2", "--min", "2", "--max", "1"})
                .exit_code,
            2);
  EXPECT_EQ(read("there.json"), "kept");
}

TEST_F(AllReduceBenchmark, TunedTablesAddUpAndFitThisMachine) {
  for (const char* const ranks : {"2", "3"}) {
    const auto end = all_reduce(
        {"--ranks", ranks, "--max", "16KiB", "--rounds", "1", "--tune", path("tuning.yaml")});
    ASSERT_EQ(end.exit_code, 0) << end.output;
  }
  const auto tuning = train::read_tuning_file(path("tuning.yaml"));
  for (const int ranks : {2, 3})
    EXPECT_NE(tuning_for(tuning, "", train::this_machine(), "processes", ranks), "");
}

TEST_F(AllReduceBenchmark, RecordedRingIsDrawn) {
  const auto end = all_reduce(
      {"--ranks", "4", "--max", "64KiB", "--algorithm", "ring", "--record", path("ring.json")});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  // Each rank's 2 n - 1 steps.
  EXPECT_EQ(nlohmann::json::parse(read("ring.json")).at("steps").size(), 28u);
  const auto drawn =
      run({"python3", scripts + "/draw_steps.py", path("ring.json"), path("picture")});
  ASSERT_EQ(drawn.exit_code, 0) << drawn.output;
  for (const char* const name : {"reduce_scatter", "all_gather", "time"})
    EXPECT_THAT(read(std::string("picture_") + name + ".svg"), HasSubstr("</svg>")) << name;
}

TEST_F(AllReduceBenchmark, BandwidthIsPlotted) {
  std::ofstream(path("small.json"))
      << R"({"backend": "ring", "algorithm": "auto", "ranks": 2, "rows": [)"
      << R"({"bytes": 4096, "algbw": 1.5, "busbw": 1.5, "fused_floor": 1e-6},)"
      << R"({"bytes": 65536, "algbw": 9, "busbw": 9, "fused_floor": 3e-6}]})";
  std::ofstream(path("bad.json")) << R"({"rows": []})";
  const auto bad = run({"python3", scripts + "/plot.py", path("bad.json"), "--output", "x.svg"});
  EXPECT_NE(bad.exit_code, 0);
  EXPECT_THAT(bad.output, HasSubstr("bad.json: found no rows"));
  if (run({"python3", "-c", "import matplotlib"}).exit_code != 0)
    GTEST_SKIP() << "matplotlib is not installed";
  const auto end = run({"python3", scripts + "/plot.py", path("small.json"), "--output",
                        path("plot.svg"), "--output", path("plot.png")});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(read("plot.svg"), AllOf(HasSubstr("<svg"), HasSubstr("</svg>")));
  EXPECT_THAT(read("plot.png"), HasSubstr("PNG"));
}

}  // namespace

}  // namespace lockstep::tests
