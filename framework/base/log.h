// Log lines of one rank, through spdlog. An object that is passed along: eight ranks of one process
// have eight.
//
// Thread-safe. A line of the launcher or of rank 0 that concerns the whole run carries no rank; a
// line about one rank starts with "rank N:".
#pragma once

#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace lockstep::base {

enum class LogLevel { debug, info, warning, error, off };

LogLevel log_level_from_name(std::string_view name);  // "debug", ...; ConfigError listing the names

class Log {
 public:
  // Lines go to stderr (warnings and errors) and stdout (the rest), and to `file` unless it is
  // empty (appended). `prefix` stands before each message. With `console` false only the file gets
  // them.
  explicit Log(LogLevel level = LogLevel::info, std::string prefix = "",
               const std::string& file = "", bool console = true);
  static Log silent() { return Log(LogLevel::off); }

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    if (level_ <= LogLevel::debug)
      write(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (level_ <= LogLevel::info)
      write(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) const {
    if (level_ <= LogLevel::warning)
      write(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    if (level_ <= LogLevel::error)
      write(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
  }

  LogLevel level() const { return level_; }
  void flush() const;

 private:
  void write(LogLevel level, std::string_view message) const;

  LogLevel level_;
  std::string prefix_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace lockstep::base

namespace lockstep {
using base::Log;
}
