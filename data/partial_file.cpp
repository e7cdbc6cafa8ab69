#include "data/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view infix = ".partial-";

// The process that writes `candidate`, if that is a temporary file for a file called `name`.
std::optional<pid_t> writer_of(std::string_view candidate, std::string_view name) {
  if (!candidate.starts_with(name) || !candidate.substr(name.size()).starts_with(infix))
    return std::nullopt;
  const std::string_view number = candidate.substr(name.size() + infix.size());
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), pid);
  if (error != std::errc{} || end != number.data() + number.size() || pid <= 0) return std::nullopt;
  return pid;
}

bool is_gone(pid_t pid) {
  return kill(pid, 0) != 0 && errno == ESRCH;
}

bool is_locked(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return true;
  const bool locked = flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  close(descriptor);
  return locked;
}

}  // namespace

std::string partial_name(const std::string& path) {
  return fmt::format("{}{}{}", path, infix, getpid());
}

void remove_stale_partials(const std::string& path) {
  const fs::path target(path);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto pid = writer_of(entry->path().filename().string(), target.filename().string());
    if (!pid || !is_gone(*pid) || is_locked(entry->path())) continue;
    std::error_code ignored;
    fs::remove(entry->path(), ignored);
  }
}

}  // namespace lockstep::data
