#include "data/partial_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

class PartialFileTest : public ::testing::Test {
 protected:
  PartialFileTest() {
    std::string name = (fs::temp_directory_path() / "lockstep-partial-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder");
    folder_ = name;
  }
  ~PartialFileTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string make(const std::string& name) const {
    std::ofstream(folder_ / name) << "rows";
    return folder_ / name;
  }
  std::string data() const { return folder_ / "set.h5"; }

  fs::path folder_;
};

// The number of a process that has ended.
pid_t gone() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST_F(PartialFileTest, OnlyWhatDeadWritersOfThisFileLeftGoes) {
  const std::string dead = std::to_string(gone());
  const std::string stale = make("set.h5.partial-" + dead);
  const std::vector<std::string> others{
      make("set.h5.partial-" + std::to_string(getpid())),
      make("set.h5.partial-" + std::to_string(getppid())),
      make("other.h5.partial-" + dead),
      make("set.h5.partial-" + dead + "x"),
      make("set.h5.partial-"),
      make("set.h5"),
  };
  remove_stale_partials(data());
  EXPECT_FALSE(fs::exists(stale));
  for (const auto& other : others) EXPECT_TRUE(fs::exists(other)) << other;
}

// As when a process of another host writes it.
TEST_F(PartialFileTest, WhatIsLockedStays) {
  const std::string path = make("set.h5.partial-" + std::to_string(gone()));
  const int descriptor = open(path.c_str(), O_RDWR);
  ASSERT_EQ(flock(descriptor, LOCK_EX), 0);
  remove_stale_partials(data());
  EXPECT_TRUE(fs::exists(path));
  close(descriptor);
  remove_stale_partials(data());
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(PartialFileTest, NoFolderIsNothingToDo) {
  EXPECT_NO_THROW(remove_stale_partials(folder_ / "absent" / "set.h5"));
}

}  // namespace
}  // namespace lockstep::data
