#include "tests/support/shared_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

bool is_in_memory(const std::string& name) {
  return name.starts_with("/memfd:") || name.starts_with("/dev/shm/");
}

void add_mapped(pid_t process, std::set<std::string>& found) {
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  for (std::string line; std::getline(maps, line);) {
    // "7f0000000000-7f0000001000 rw-s 00000000 00:01 7043   /memfd:lockstep (deleted)"
    std::istringstream fields(line);
    std::string range, rights, offset, device, inode, name;
    fields >> range >> rights >> offset >> device >> inode >> std::ws;
    std::getline(fields, name);
    if (rights.ends_with('s')) found.insert(inode + " " + name);
  }
}

void add_open(pid_t process, std::set<std::string>& found) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", process), error)) {
    const std::string name = fs::read_symlink(entry.path(), error);
    struct stat status {};
    if (!error && is_in_memory(name) && ::stat(entry.path().c_str(), &status) == 0)
      found.insert(fmt::format("{} {}", status.st_ino, name));
  }
}

}  // namespace

std::set<std::string> shared_memory_of(pid_t process) {
  std::set<std::string> found;
  add_mapped(process, found);
  add_open(process, found);
  return found;
}

std::set<std::string> still_there(const std::set<std::string>& memory) {
  std::set<std::string> found;
  std::error_code error;
  for (const std::string& one : memory)
    if (fs::exists(one.substr(one.find(' ') + 1), error)) found.insert(one);
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    const auto held = shared_memory_of(std::stoi(name));
    std::ranges::set_intersection(held, memory, std::inserter(found, found.end()));
  }
  return found;
}

}  // namespace lockstep::tests
