// The `dataset` program, run as a user does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "tests/data/dataset_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

struct Outcome {
  int exit_code;
  std::string output;  // stdout and stderr
};

Outcome dataset(const std::string& arguments) {
  const std::string command = std::string(DATASET_PROGRAM) + " " + arguments + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  Outcome outcome{};
  std::array<char, 4096> part{};
  while (const std::size_t count = fread(part.data(), 1, part.size(), pipe)) {
    outcome.output.append(part.data(), count);
  }
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

class DatasetProgramTest : public DatasetTest {
 protected:
  std::string table_ = write_text("table.csv", "width,kind\n1,rose\n2,daisy\n3,rose\n4,rose\n");
  std::string out_ = path("new/table.h5");
};

TEST_F(DatasetProgramTest, ImportsInspectsAndVerifies) {
  const Outcome imported =
      dataset("import csv " + table_ + " --out " + out_ + " --name flowers --test-fraction 0.25");
  EXPECT_EQ(imported.exit_code, 0);
  EXPECT_EQ(imported.output, out_ + ": 3 train and 1 test samples of float32 [1], 2 classes\n");
  const Outcome inspected = dataset("inspect " + out_);
  EXPECT_EQ(inspected.exit_code, 0);
  EXPECT_THAT(inspected.output, HasSubstr("name      flowers"));
  EXPECT_THAT(inspected.output, HasSubstr("daisy"));
  const Outcome verified = dataset("verify " + out_);
  EXPECT_EQ(verified.exit_code, 0);
  EXPECT_THAT(verified.output, HasSubstr("all checksums agree"));
}

TEST_F(DatasetProgramTest, KeepsAValidFileIfAsked) {
  const std::string import = "import csv " + table_ + " --out " + out_ + " --if-missing";
  EXPECT_THAT(dataset(import).output, HasSubstr("4 train samples"));
  write_text("table.csv", "1,0\n");
  const Outcome kept = dataset(import);
  EXPECT_EQ(kept.exit_code, 0);
  EXPECT_THAT(kept.output, HasSubstr("is there: 4 train samples"));
  write_text("new/table.h5", "damaged");
  EXPECT_THAT(dataset(import).output, HasSubstr("importing again"));
  EXPECT_EQ(DatasetFile(out_).split("train").samples, 1);
}

TEST_F(DatasetProgramTest, ExitsWith2ForUsage) {
  for (const std::string arguments :
       {"", "import", "import idx --out x.h5", "import csv --out x.h5", "import csv a.csv",
        "inspect", "inspect a b", "frobnicate", "import idx folder --train-features a --out x.h5",
        "import idx --train-features a --out x.h5", "import csv a.csv --out x.h5 --test-fraction 2",
        "import csv a.csv --out x.h5 --header maybe"}) {
    EXPECT_EQ(dataset(arguments).exit_code, 2) << arguments;
  }
  EXPECT_EQ(dataset("--help").exit_code, 0);
}

TEST_F(DatasetProgramTest, ExitsWith3ForData) {
  const Outcome missing = dataset("inspect " + path("none.h5"));
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_EQ(missing.output,
            "dataset: " + path("none.h5") + ": no such file, expected a data set file\n");
  EXPECT_EQ(dataset("verify " + table_).exit_code, 3);
  EXPECT_EQ(dataset("import idx " + path("") + " --out " + out_).exit_code, 3);
  write_text("table.csv", "a,b\nx,0\n");
  EXPECT_EQ(dataset("import csv " + table_ + " --out " + out_).exit_code, 3);
}

TEST_F(DatasetProgramTest, ListsDamage) {
  const std::string file = write_tagged("tagged.h5", 40, 0, 10);
  damage_row(file, 25);
  const Outcome verified = dataset("verify " + file);
  EXPECT_EQ(verified.exit_code, 3);
  EXPECT_THAT(verified.output, HasSubstr("/train: rows [20, 30) are damaged"));
}

}  // namespace
}  // namespace lockstep::data
