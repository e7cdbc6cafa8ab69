#include "comm/mpi/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;

// A folder this old belongs to a job that has locked it, if it still belongs to any.
constexpr std::chrono::seconds age_of_a_left_one{60};

fs::path root() {
  std::error_code error;
  return fs::is_directory("/dev/shm", error) ? "/dev/shm" : "/tmp";
}

fs::path path_of(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return root() / name;
}

bool is_ours(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid();
}

// Processes that are just ending may still add files.
void remove_folder(const fs::path& path) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    std::error_code error;
    fs::remove_all(path, error);
    if (!fs::exists(path, error)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Descriptor lock(const fs::path& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) folder.reset();
  return folder;
}

void remove_left_ones() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root(), error)) {
    const fs::path& path = entry.path();
    if (!path.filename().string().starts_with(job_name_prefix) || !is_ours(path)) continue;
    const auto changed = fs::last_write_time(path, error);
    if (error || fs::file_time_type::clock::now() - changed < age_of_a_left_one) continue;
    if (const Descriptor held = lock(path)) remove_folder(path);
  }
}

// Waits until nobody has the other end of the pipe. Never returns.
[[noreturn]] void keep(const std::string& path, int lock_descriptor, int pipe_end) {
  // What ends the run must not end the one that clears up after it.
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  ::prctl(PR_SET_NAME, "mpi keeper");
  // Nobody's connections are to be kept open by it.
  ::dup2(lock_descriptor, 3);
  ::dup2(pipe_end, 4);
  ::close_range(5, ~0U, 0);
  char nothing = 0;
  while (::read(4, &nothing, 1) < 0 && errno == EINTR) {
  }
  remove_folder(path);
  ::_exit(0);
}

}  // namespace

JobFolder::JobFolder(const std::string& name) : path_(path_of(name)) {
  remove_left_ones();
  const auto fail = [&](const char* what) {
    return StartupError(fmt::format("backend mpi: {} {}: {}", what, path_, std::strerror(errno)));
  };
  if (::mkdir(path_.c_str(), 0700) != 0 && !(errno == EEXIST && is_ours(path_)))
    throw fail("cannot make the folder");
  if (!(lock_ = lock(path_))) throw fail("another run uses the folder");
  // A job of this name that was here before may have left something.
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) fs::remove_all(entry, error);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw fail("cannot make a pipe for");
  const Descriptor keepers_end(ends[0]);
  guard_ = Descriptor(ends[1]);
  keeper_ = ::fork();
  if (keeper_ < 0) throw fail("cannot start the keeper of");
  if (keeper_ == 0) {
    // Descriptors 3 and 4 may be any of the four.
    const int held = ::fcntl(lock_.get(), F_DUPFD, 10);
    const int end = ::fcntl(keepers_end.get(), F_DUPFD, 10);
    keep(path_, held, end);
  }
}

JobFolder::~JobFolder() {
  guard_.reset();
  ::waitpid(keeper_, nullptr, 0);
  remove_folder(path_);  // should the keeper have been killed
}

std::string find_job_folder(const std::string& name) {
  const fs::path path = path_of(name);
  return is_ours(path) ? path.string() : "";
}

}  // namespace lockstep::comm
