#include "comm/memory/host_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace lockstep::comm {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

// The number in `file`, or the one after the word `key`. None where there is no such file or word,
// or where the file says "max".
std::optional<std::uint64_t> number_in(const std::string& file, const std::string& key = "") {
  std::ifstream stream(file);
  std::string word;
  while (!key.empty() && word != key)
    if (!(stream >> word)) return std::nullopt;
  std::uint64_t number = 0;
  if (!(stream >> number)) return std::nullopt;
  return number;
}

// Where the two versions of memory cgroups keep their figures.
struct CgroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // counted as used, but given up for the asking; a key of memory.stat
};
constexpr CgroupFiles version_1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                "memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupFiles version_2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

// What the cgroup and all those above it leave.
std::uint64_t left_in_cgroup(const CgroupFiles& files, std::filesystem::path path) {
  std::uint64_t left = unlimited;
  while (true) {
    const std::string folder = files.mount + path.string() + "/";
    const auto limit = number_in(folder + files.limit);
    const auto usage = number_in(folder + files.usage);
    if (limit && usage) {
      const std::uint64_t reclaimable =
          number_in(folder + "memory.stat", files.reclaimable).value_or(0);
      const std::uint64_t used = *usage - std::min(*usage, reclaimable);
      left = std::min(left, *limit - std::min(*limit, used));
    }
    if (!path.has_relative_path()) return left;
    path = path.parent_path();
  }
}

std::uint64_t left_in_cgroups() {
  // Lines of "number:controllers:path"; version 2 has number 0 and no controllers.
  std::uint64_t left = unlimited;
  std::ifstream stream("/proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") left = std::min(left, left_in_cgroup(version_2, path));
    if (controllers.find(",memory,") != std::string::npos)
      left = std::min(left, left_in_cgroup(version_1, path));
  }
  return left;
}

std::uint64_t left_on_host() {
  const auto available = number_in("/proc/meminfo", "MemAvailable:");  // in KiB, as SwapFree
  if (!available) return unlimited;
  return (*available + number_in("/proc/meminfo", "SwapFree:").value_or(0)) * 1024;
}

}  // namespace

std::uint64_t available_memory() {
  return std::min(left_on_host(), left_in_cgroups());
}

std::uint64_t file_size_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  return limit.rlim_cur;
}

}  // namespace lockstep::comm
