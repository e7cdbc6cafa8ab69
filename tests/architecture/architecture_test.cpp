#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/architecture/source_rules.h"

namespace lockstep::architecture {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(Architecture, HoldsForTheSources) {
  const Report report = check_sources(LOCKSTEP_SOURCE_DIR);
  EXPECT_GT(report.files, 50);
  EXPECT_THAT(report.violations, IsEmpty());
}

// A source tree made for one test.
class PlantedTree : public testing::Test {
 protected:
  PlantedTree() {
    fs::create_directories(root_);
    write("framework/base/low.h", "#pragma once\n");
    write("framework/tensor/middle.h", "#pragma once\n#include \"framework/base/low.h\"\n");
    write("comm/ring/cpu/side.h", "#pragma once\n#include \"framework/base/low.h\"\n");
    write("train/top.cpp",
          "#include <vector>\n#include \"comm/ring/cpu/side.h\"\n#include "
          "\"framework/tensor/middle.h\"\n");
  }
  ~PlantedTree() override { fs::remove_all(root_); }

  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::vector<std::string> violations() const { return check_sources(root_).violations; }

  fs::path root_ =
      fs::temp_directory_path() / ("lockstep_architecture_" + std::to_string(getpid()));
};

TEST_F(PlantedTree, IsCleanToBeginWith) {
  const Report report = check_sources(root_);
  EXPECT_EQ(report.files, 4);
  EXPECT_THAT(report.violations, IsEmpty());
}

TEST_F(PlantedTree, ReportsAnArrowUpwards) {
  write("framework/base/bad.cpp",
        "#include \"framework/base/low.h\"\n#include \"framework/tensor/middle.h\"\n");
  EXPECT_THAT(violations(), ElementsAre("framework/base/bad.cpp:2: framework/base may not include "
                                        "\"framework/tensor/middle.h\""));
}

TEST_F(PlantedTree, ReportsAnArrowSideways) {
  write("comm/ring/bad.cu", "  #  include \"framework/tensor/middle.h\"  // indented\n");
  write("data/bad.cpp", "\n#include \"comm/ring/cpu/side.h\"\n");
  write("framework/optim/rule.h", "#pragma once\n");
  write("framework/nn/bad.cpp", "#include \"framework/optim/rule.h\"\n");
  EXPECT_THAT(violations(),
              ElementsAre(StartsWith("comm/ring/bad.cu:1: comm may not"),
                          StartsWith("data/bad.cpp:2: data may not"),
                          StartsWith("framework/nn/bad.cpp:1: framework/nn may not")));
}

TEST_F(PlantedTree, ReportsAnIncludeOfTests) {
  write("tests/helper.h", "#pragma once\n");
  write("train/bad.cpp", "#include \"tests/helper.h\"\n");
  EXPECT_THAT(violations(),
              ElementsAre("train/bad.cpp:1: train may not include \"tests/helper.h\""));
}

TEST_F(PlantedTree, ReportsARelativeInclude) {
  write("comm/ring/cpu/bad.cpp", "#include \"side.h\"\n");
  EXPECT_THAT(violations(), ElementsAre(HasSubstr("\"side.h\" is not the path of a file")));
}

TEST_F(PlantedTree, ReportsAMissingGuard) {
  write("comm/bad.h", "// #pragma once\n");
  write("comm/bad.cuh", "");
  EXPECT_THAT(violations(), ElementsAre("comm/bad.cuh:1: the header has no #pragma once",
                                        "comm/bad.h:1: the header has no #pragma once"));
}

TEST_F(PlantedTree, ReportsALongFile) {
  std::string text;
  for (int line = 0; line < 500; ++line) text += "//\n";
  write("models/long.cpp", text);
  EXPECT_THAT(violations(), IsEmpty());
  write("models/long.cpp", text + "//\n");
  EXPECT_THAT(violations(), ElementsAre(HasSubstr("the file has 501 lines")));
}

TEST_F(PlantedTree, ReportsAFolderThatNobodyPlanned) {
  write("framework/misc/bad.cpp", "");
  write("framework/bad.cpp", "");
  EXPECT_THAT(violations(),
              ElementsAre("framework/bad.cpp:1: the folder is not in the layout",
                          "framework/misc/bad.cpp:1: the folder is not in the layout"));
}

}  // namespace
}  // namespace lockstep::architecture
