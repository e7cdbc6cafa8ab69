#include "comm/mpi/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

std::string name_of(const std::string& what) {
  return fmt::format("{}test-{}-{}", job_name_prefix, getpid(), what);
}

bool holds_within(seconds limit, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// The keeper that `launcher` has started; -1 while there is none.
pid_t keeper_of(pid_t launcher) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    if (!std::getline(file, stat)) continue;
    // "17 (mpi keeper) S 4 ...": the state and the parent stand behind the name.
    if (stat.find("(mpi keeper)") == std::string::npos) continue;
    if (std::stoi(stat.substr(stat.find(')') + 4)) == launcher) return std::stoi(stat);
  }
  return -1;
}

// A process that holds the folder of a job, with a file in it, until it is killed.
class Launcher {
 public:
  explicit Launcher(const std::string& name) {
    pid_ = fork();
    if (pid_ == 0) {
      const JobFolder folder(name);
      std::ofstream(folder.path() + "/segment") << "shared";
      std::ofstream(folder.path() + "/ready") << "yes";
      while (true) pause();
    }
  }
  ~Launcher() { end(); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

// What a run that uses the folder holds; nothing while another one does.
Descriptor lock(const std::string& path) {
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder && flock(folder.get(), LOCK_EX | LOCK_NB) != 0) folder.reset();
  return folder;
}

// The folder of a job whose launcher and keeper were killed.
std::string leave_a_folder(const std::string& name) {
  Launcher launcher(name);
  std::string path;
  EXPECT_TRUE(holds_within(seconds(20), [&] {
    path = find_job_folder(name);
    return !path.empty() && fs::exists(path + "/ready");
  }));
  pid_t keeper = -1;
  EXPECT_TRUE(holds_within(seconds(20), [&] { return (keeper = keeper_of(launcher.pid())) > 0; }));
  kill(keeper, SIGKILL);
  launcher.end();
  EXPECT_TRUE(holds_within(seconds(20), [&] { return bool(lock(path)); })) << "the dead hold it";
  return path;
}

void make_old(const std::string& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(5));
}

TEST(JobFolder, GoesWithItsLauncherThroughTheKeeper) {
  const std::string name = name_of("killed");
  {
    const Launcher launcher(name);
    EXPECT_TRUE(holds_within(seconds(20), [&] { return keeper_of(launcher.pid()) > 0; }));
  }
  EXPECT_TRUE(holds_within(seconds(20), [&] { return find_job_folder(name).empty(); }));
}

TEST(JobFolder, OfAKilledKeeperGoesWithTheNextRun) {
  const std::string left = leave_a_folder(name_of("left"));
  ASSERT_TRUE(fs::exists(left + "/segment"));
  make_old(left);
  const JobFolder next(name_of("next"));
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(next.path()));
}

TEST(JobFolder, OfOthersAreLeftAlone) {
  const std::string young = leave_a_folder(name_of("young"));
  const std::string used = leave_a_folder(name_of("used"));
  // Before it looks old, or a job that starts beside this test may clear it away.
  const Descriptor held = lock(used);
  ASSERT_TRUE(held);
  make_old(used);
  const fs::path stranger = fs::path(used).parent_path() / fmt::format("lockstep-mp-{}", getpid());
  fs::create_directory(stranger);
  make_old(stranger);
  {
    const JobFolder next(name_of("next"));
    EXPECT_TRUE(fs::exists(young + "/segment"));  // it may be about to lock it
    EXPECT_TRUE(fs::exists(used + "/segment"));
    EXPECT_TRUE(fs::exists(stranger));
  }
  for (const fs::path& path : {fs::path(young), fs::path(used), stranger}) fs::remove_all(path);
}

}  // namespace
}  // namespace lockstep::comm
