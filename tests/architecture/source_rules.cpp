#include "tests/architecture/source_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace lockstep::architecture {
namespace {

namespace fs = std::filesystem;

constexpr int most_lines = 500;
constexpr std::array roots = {"framework", "comm", "models", "data", "train"};

// What each folder may include beside itself. Spelled out rather than derived, so that a new arrow
// is a decision that someone sees.
const std::map<std::string, std::set<std::string>, std::less<>>& allowed_includes() {
  static const std::map<std::string, std::set<std::string>, std::less<>> allowed = [] {
    const std::set<std::string> tensor{"framework/base", "framework/device", "framework/tensor"};
    const auto above = [](std::set<std::string> below, std::initializer_list<const char*> more) {
      below.insert(more.begin(), more.end());
      return below;
    };
    const auto autograd = above(tensor, {"framework/kernels", "framework/autograd"});
    const auto nn = above(autograd, {"framework/ops", "framework/nn"});
    const auto framework = above(nn, {"framework/optim"});
    return std::map<std::string, std::set<std::string>, std::less<>>{
        {"framework/base", {}},
        {"framework/device", {"framework/base"}},
        {"framework/tensor", {"framework/base", "framework/device"}},
        {"framework/kernels", tensor},
        {"framework/autograd", above(tensor, {"framework/kernels"})},
        {"framework/ops", autograd},
        {"framework/nn", above(autograd, {"framework/ops"})},
        {"framework/optim", nn},
        {"models", framework},
        {"comm", {"framework/base", "framework/device"}},
        {"data", tensor},
        {"train", above(framework, {"models", "comm", "data"})},
    };
  }();
  return allowed;
}

// "framework/base" of "framework/base/dtype.h", "comm" of "comm/store/tcp_store.h"; nothing where
// the path is in no folder of the layout.
std::optional<std::string> layer_of(std::string_view path) {
  std::size_t slash = path.find('/');
  if (slash != std::string_view::npos && path.substr(0, slash) == "framework") {
    slash = path.find('/', slash + 1);
  }
  if (slash == std::string_view::npos) return std::nullopt;
  const auto layer = allowed_includes().find(path.substr(0, slash));
  if (layer == allowed_includes().end()) return std::nullopt;
  return layer->first;
}

// The file between the quotes of `#include "file"`; nothing for any other line.
std::optional<std::string> included_file(std::string_view line) {
  const auto skip = [&](std::string_view token) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(token)) return false;
    line.remove_prefix(token.size());
    return true;
  };
  if (!skip("#") || !skip("include") || !skip("\"")) return std::nullopt;
  return std::string(line.substr(0, line.find('"')));
}

bool is_header(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cuh";
}

bool is_source(const fs::path& path) {
  return is_header(path) || path.extension() == ".cpp" || path.extension() == ".cu";
}

class Checker {
 public:
  explicit Checker(fs::path root) : root_(std::move(root)) {}

  void check(const fs::path& path) {
    ++report_.files;
    file_ = path.lexically_relative(root_).generic_string();
    layer_ = layer_of(file_);
    if (!layer_) fail(1, "the folder is not in the layout");

    std::ifstream stream(path);
    int lines = 0;
    bool pragma_once = false;
    for (std::string line; std::getline(stream, line);) {
      ++lines;
      pragma_once |= line == "#pragma once";
      if (const auto included = included_file(line)) check_include(lines, *included);
    }
    if (is_header(path) && !pragma_once) fail(1, "the header has no #pragma once");
    if (lines > most_lines) {
      fail(lines, fmt::format("the file has {} lines, at most {} are allowed", lines, most_lines));
    }
  }

  Report take() {
    std::ranges::sort(report_.violations);
    return std::move(report_);
  }

 private:
  void check_include(int line, const std::string& included) {
    const std::optional<std::string> target = layer_of(included);
    if (!fs::is_regular_file(root_ / included)) {
      fail(line, fmt::format("\"{}\" is not the path of a file from the repo root", included));
    } else if (!target) {
      fail(line, fmt::format("{} may not include \"{}\"", layer_.value_or(file_), included));
    } else if (layer_ && target != layer_ && !allowed_includes().at(*layer_).contains(*target)) {
      fail(line, fmt::format("{} may not include \"{}\"", *layer_, included));
    }
  }

  void fail(int line, const std::string& what) {
    report_.violations.push_back(fmt::format("{}:{}: {}", file_, line, what));
  }

  fs::path root_;
  Report report_;
  std::string file_;                  // being read, from the root
  std::optional<std::string> layer_;  // its layer
};

}  // namespace

Report check_sources(const fs::path& root) {
  Checker checker(root);
  for (const char* folder : roots) {
    if (!fs::exists(root / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && is_source(entry.path())) checker.check(entry.path());
    }
  }
  return checker.take();
}

}  // namespace lockstep::architecture
