// What the benchmarks share: timing, a table for people and the same rows as JSON for programs.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::benchmarks {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Seconds of one repetition.
struct Timing {
  double median = 0, min = 0, max = 0;
  int repetitions = 0;
};

inline Timing summarise(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back(),
          static_cast<int>(seconds.size())};
}

inline double median(std::vector<double> values) {
  return summarise(std::move(values)).median;
}

// Runs the bodies in turn, so that a slow spell of the machine falls on all of them, until each has
// had `seconds`, at least five times each after one run that is not counted.
inline std::vector<Timing> time_alternating(std::span<const std::function<void()>> bodies,
                                            double seconds) {
  std::vector<std::vector<double>> times(bodies.size());
  for (const auto& body : bodies) body();
  const auto start = std::chrono::steady_clock::now();
  while (times.front().size() < 5 ||
         seconds_since(start) < seconds * static_cast<double>(bodies.size())) {
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const auto before = std::chrono::steady_clock::now();
      bodies[i]();
      times[i].push_back(seconds_since(before));
    }
  }
  std::vector<Timing> timings;
  for (auto& of_body : times) timings.push_back(summarise(std::move(of_body)));
  return timings;
}

inline Timing time_repeated(const std::function<void()>& body, double seconds) {
  return time_alternating({&body, 1}, seconds).front();
}

// Rows of named columns.
class Report {
 public:
  using Value = std::variant<std::string, double, std::int64_t>;

  explicit Report(std::vector<std::string> columns) : columns_(std::move(columns)) {}

  void add(std::vector<Value> row) {
    if (row.size() != columns_.size()) throw std::invalid_argument("Report: wrong number of cells");
    rows_.push_back(std::move(row));
  }

  // Aligned; numbers to the right, with three significant digits.
  void print(std::FILE* out = stdout) const {
    std::vector<std::size_t> width;
    for (const std::string& column : columns_) width.push_back(column.size());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i)
        width[i] = std::max(width[i], text(row[i]).size());
    }
    for (std::size_t i = 0; i < columns_.size(); ++i)
      fmt::print(out, "{:<{}}  ", columns_[i], width[i]);
    fmt::print(out, "\n");
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const bool left = std::holds_alternative<std::string>(row[i]);
        fmt::print(out, fmt::runtime(left ? "{:<{}}  " : "{:>{}}  "), text(row[i]), width[i]);
      }
      fmt::print(out, "\n");
    }
  }

  // An object for each row, in an array.
  std::string json() const {
    std::string array = "[";
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      array += r == 0 ? "\n  {" : ",\n  {";
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        array +=
            fmt::format("{}{}: {}", i == 0 ? "" : ", ", quoted(columns_[i]), json(rows_[r][i]));
      }
      array += "}";
    }
    return array + "\n]";
  }

 private:
  static std::string text(const Value& value) {
    if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.3g}", *number);
    if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
    return std::get<std::string>(value);
  }
  static std::string json(const Value& value) {
    if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
    if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
    return quoted(std::get<std::string>(value));
  }
  static std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out + '"';
  }

  std::vector<std::string> columns_;
  std::vector<std::vector<Value>> rows_;
};

inline void write_file(const std::string& path, std::string_view text) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (!file) throw std::runtime_error("cannot write " + path);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) throw std::runtime_error("cannot write " + path);
}

}  // namespace lockstep::benchmarks
