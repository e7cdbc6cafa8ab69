#include "train/config/locate.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::train {

std::string locate_config(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;  // a path that cannot be looked at is not there
  if (fs::exists(name, error)) return name;
  std::vector<std::string> places;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  // <repository>/build/<preset>/bin/train, <prefix>/bin/train
  for (const char* const configs : {"../../../configs", "../share/lockstep/configs"}) {
    const fs::path path = (program.parent_path() / configs / name).lexically_normal();
    if (fs::exists(path, error)) return path;
    places.push_back(path.parent_path());
  }
  throw ConfigError(fmt::format("there is no configuration '{}', neither here nor in {}", name,
                                fmt::join(places, " or ")));
}

}  // namespace lockstep::train
