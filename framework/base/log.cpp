#include "framework/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>

#include <array>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

constexpr const char* pattern = "%H:%M:%S %v";

// Warnings and errors to stderr, the rest to stdout. Every line is flushed, so that the two stay in
// order when they end in the same place and nothing is lost when the process is killed.
class ConsoleSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::FILE* const file = message.level >= spdlog::level::warn ? stderr : stdout;
    std::fwrite(line.data(), 1, line.size(), file);
    std::fflush(file);
  }
  void flush_() override { std::fflush(stdout); }
};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      return spdlog::level::off;
  }
  __builtin_unreachable();
}

// Ordinary lines carry no tag: they are nearly all lines.
std::string_view tag(LogLevel level) {
  switch (level) {
    case LogLevel::warning:
      return "warning: ";
    case LogLevel::error:
      return "error: ";
    default:
      return "";
  }
}

}  // namespace

LogLevel log_level_from_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, LogLevel>, 5> levels = {
      {{"debug", LogLevel::debug},
       {"info", LogLevel::info},
       {"warning", LogLevel::warning},
       {"error", LogLevel::error},
       {"off", LogLevel::off}}};
  for (const auto& [known, level] : levels) {
    if (known == name) return level;
  }
  throw ConfigError(fmt::format(
      "unknown log level '{}', expected one of: debug, info, warning, error, off", name));
}

Log::Log(LogLevel level, std::string prefix, const std::string& file, bool console)
    : level_(level), prefix_(std::move(prefix)) {
  if (level == LogLevel::off) return;
  std::vector<spdlog::sink_ptr> sinks;
  if (console) sinks.push_back(std::make_shared<ConsoleSink>());
  if (!file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
    } catch (const spdlog::spdlog_ex& error) {
      throw StartupError("cannot write the log file '" + file + "': " + error.what());
    }
  }
  logger_ = std::make_shared<spdlog::logger>("lockstep", sinks.begin(), sinks.end());
  logger_->set_level(to_spdlog(level));
  logger_->set_pattern(pattern);
  logger_->flush_on(spdlog::level::warn);
}

void Log::write(LogLevel level, std::string_view message) const {
  if (logger_) logger_->log(to_spdlog(level), "{}{}{}", tag(level), prefix_, message);
}

void Log::flush() const {
  if (logger_) logger_->flush();
}

}  // namespace lockstep::base
