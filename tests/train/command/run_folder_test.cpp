#include "train/command/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "framework/base/error.h"
#include "train/config/load.h"
#include "train/config/print.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RunFolder : public ::testing::Test {
 protected:
  RunFolder() {
    std::string name = (fs::temp_directory_path() / "lockstep-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    config_ = parse_config(
        "model: {name: mlp}\ndata: {file: a.h5}\ntrain: {batch_size: 64}\n"
        "optimizer: {name: sgd, lr: 0.1}\n",
        "test");
    config_.run.folder = folder_ / "some" / "runs";
  }
  ~RunFolder() override { fs::remove_all(folder_); }

  template <class E>
  std::string error() {
    try {
      make_run_folder(config_, "mlp.yaml");
    } catch (const E& failure) {
      return failure.what();
    }
    return "no error";
  }

  fs::path folder_;
  Config config_;
};

TEST_F(RunFolder, IsANewOneEachTime) {
  std::set<std::string> folders;
  for (int i = 0; i < 20; ++i) {
    const std::string folder = make_run_folder(config_, "configs/mlp.yaml");
    EXPECT_TRUE(folders.insert(folder).second) << folder;
    EXPECT_THAT(fs::path(folder).filename().string(), StartsWith("mlp-2"));
    EXPECT_EQ(load_config(folder + "/config.yaml"), config_);
  }
}

TEST_F(RunFolder, HasTheNameThatIsGivenOnce) {
  config_.run.name = "first";
  EXPECT_EQ(make_run_folder(config_, "mlp.yaml"), (folder_ / "some/runs/first").string());
  EXPECT_THAT(error<ConfigError>(), HasSubstr("run.name: there is a run"));
}

TEST_F(RunFolder, NamesPathAndReasonWhereItCannotBeMade) {
  std::ofstream(folder_ / "file") << "text";
  for (const char* const name : {"file", "file/runs"}) {
    config_.run.folder = folder_ / name;
    EXPECT_THAT(error<CheckpointError>(), HasSubstr((folder_ / name).string()));
    EXPECT_THAT(error<CheckpointError>(), HasSubstr("Not a directory"));
  }
}

TEST(ConfigName, IsThatOfTheFile) {
  EXPECT_EQ(config_name("configs/mlp.yaml"), "mlp");
  EXPECT_EQ(config_name("a.b.yaml"), "a.b");
}

}  // namespace
}  // namespace lockstep::train
