#include "train/tuning_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "framework/base/error.h"

namespace lockstep::train {

namespace {

using testing::HasSubstr;

class TuningFiles : public testing::Test {
 protected:
  TuningFiles() {
    folder_ = testing::TempDir() + "tuning-" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  ~TuningFiles() override { std::filesystem::remove_all(folder_); }

  std::string file() const { return folder_ + "/tuning.yaml"; }
  void write(const std::string& text) const { std::ofstream(file()) << text; }

  void expect_refused(const std::string& text, const std::vector<std::string>& words) const {
    write(text);
    try {
      read_tuning_file(file());
      FAIL() << text;
    } catch (const ConfigError& error) {
      for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word)) << text;
    }
  }

 private:
  std::string folder_;
};

const std::string good =
    "format: lockstep-tuning\n"
    "version: 1\n"
    "machine: {processor: Abacus 3, cores: 2}\n"
    "all_reduce:\n"
    "  processes:\n"
    "    2: \"one_shot<=16KiB, two_shot\"\n"
    "    4: two_shot\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST_F(TuningFiles, WhatIsWrittenIsRead) {
  TuningFile tuning{{"The \"fast\" one", 96}, {}};
  tuning.all_reduce["processes"][2] = "one_shot<=4096, ring";
  tuning.all_reduce["threads"][8] = "halving_doubling";
  write_tuning_file(file(), tuning);
  const TuningFile read = read_tuning_file(file());
  EXPECT_EQ(read.machine, tuning.machine);
  EXPECT_EQ(read.all_reduce, tuning.all_reduce);
}

TEST_F(TuningFiles, SaysWhatARunTakes) {
  write(good);
  const TuningFile tuning = read_tuning_file(file());
  EXPECT_EQ(tuning_for(tuning, "t", {"Abacus 3", 2}, "processes", 2), "one_shot<=16KiB, two_shot");
}

TEST_F(TuningFiles, WhatDoesNotFitIsRefused) {
  write(good);
  const TuningFile tuning = read_tuning_file(file());
  const auto message = [&](const Machine& machine, const std::string& kind, int ranks) {
    try {
      tuning_for(tuning, "t.yaml", machine, kind, ranks);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_THAT(message({"Abacus 3", 8}, "processes", 2),
              AllOf(HasSubstr("t.yaml"), HasSubstr("Abacus 3 with 2 cores"),
                    HasSubstr("found Abacus 3 with 8 cores")));
  EXPECT_THAT(message({"Abacus 4", 2}, "processes", 2), HasSubstr("found Abacus 4"));
  EXPECT_THAT(message({"Abacus 3", 2}, "processes", 3),
              AllOf(HasSubstr("2 processes, 4 processes"), HasSubstr("found 3 processes")));
  EXPECT_THAT(message({"Abacus 3", 2}, "threads", 2), HasSubstr("found 2 threads"));
}

TEST_F(TuningFiles, MistakesAreSaidWithTheirPlace) {
  expect_refused(with(good, "lockstep-tuning", "tuning"),
                 {"tuning.yaml:1: format: found tuning, expected lockstep-tuning"});
  expect_refused(with(good, "version: 1", "version: 2"), {"tuning.yaml:2: version: found 2"});
  expect_refused(with(good, "cores: 2", "cores: two"),
                 {"tuning.yaml:3: machine.cores: found two, expected a number of cores"});
  expect_refused(with(good, "cores: 2", "cpus: 2"), {"tuning.yaml:3: machine.cpus: unknown key"});
  expect_refused(with(good, "  processes:", "  rabbits:"), {"all_reduce.rabbits: unknown key"});
  expect_refused(with(good, "4: two_shot", "some: two_shot"),
                 {"tuning.yaml:7", "found some, expected a number of ranks"});
  expect_refused(with(good, "4: two_shot", "4: 17"), {"tuning.yaml:7", "found 17"});
  expect_refused(with(good, "4: two_shot", "4: three_shot"),
                 {"tuning.yaml:7: all_reduce.processes.4", "three_shot", "two_shot"});
  expect_refused(with(good, "4: two_shot", "2: two_shot"), {"tuning.yaml:7", "given twice"});
  expect_refused(with(good, "version: 1\n", ""), {"version: is missing"});
  expect_refused("]", {"is not YAML"});
  expect_refused("", {"is empty"});
}

TEST_F(TuningFiles, AMissingFileIsSaid) {
  EXPECT_THROW(read_tuning_file(file() + ".not"), ConfigError);
}

TEST(Tuning, ThisMachineHasAName) {
  EXPECT_FALSE(this_machine().processor.empty());
  EXPECT_GE(this_machine().cores, 1);
}

}  // namespace

}  // namespace lockstep::train
