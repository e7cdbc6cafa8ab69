// How the benchmarks read their command lines.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "framework/base/error.h"
#include "train/exit_code.h"

namespace lockstep::benchmarks {

// The exit code where the program ends here: after --help, or for arguments that are wrong, which
// have been said.
inline std::optional<int> parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? train::exit_done : train::exit_usage;
  }
}

// Before anything is measured: whether the file can be written, which is left as it is.
// ConfigError. An empty path is none.
inline void require_writable(const char* option, const std::string& path) {
  if (path.empty()) return;
  std::FILE* const there = std::fopen(path.c_str(), "r+");
  std::FILE* const file = there ? there : std::fopen(path.c_str(), "a");
  if (!file)
    throw ConfigError(
        fmt::format("{}: cannot write to '{}': {}", option, path, std::strerror(errno)));
  std::fclose(file);
  if (!there) std::remove(path.c_str());
}

}  // namespace lockstep::benchmarks
