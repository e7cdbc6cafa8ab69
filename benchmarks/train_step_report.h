// The table and the JSON of train_step.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/train_step_options.h"
#include "framework/base/error.h"

namespace lockstep::benchmarks {

// Of a sorted sample, between its elements.
inline double quantile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

struct Summary {
  double q1 = 0, median = 0, q3 = 0, mean = 0;
  explicit Summary(std::vector<double> sample) {
    std::sort(sample.begin(), sample.end());
    q1 = quantile(sample, 0.25);
    median = quantile(sample, 0.5);
    q3 = quantile(sample, 0.75);
    for (const double value : sample) mean += value / static_cast<double>(sample.size());
  }
};

// What a world of workers came to, in seconds and bytes. What was not measured shows as "-", and in
// JSON as null.
struct Result {
  int workers = 1;
  std::string backend;
  std::optional<double> q1, median, q3, mean, rate, compute, exposed, hidden, floor;
  std::optional<double> memory;  // proportional set size of the process
  std::optional<double> start;   // from the launch to the end of the first step
  std::optional<double> sent;    // bytes that left a rank in a step, at least
};

// `peak`: what the floor stands on, in words.
inline void print_heading(const Arguments& arguments, const std::string& peak) {
  const Workload workload = workload_of(arguments);
  fmt::print("# train_step: {}, {}, global batch {}, {} steps, {} on {}, overlap {}, hook {}\n",
             arguments.model, fmt::join(workload.widths(), "-"), workload.batch, workload.steps,
             arguments.launcher, arguments.device, arguments.overlap, arguments.hook);
  fmt::print("# products: {:.2f} GFLOP a step; {}. Times in ms\n", workload.operations() * 1e-9,
             peak);
  fmt::print("{:>7} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9}\n",
             "workers", "step", "q1", "q3", "mean", "samples/s", "compute", "exposed", "hidden",
             "floor", "PSS MiB", "start", "sent MiB");
  std::fflush(stdout);
}

inline void print_row(const Result& result) {
  const auto cell = [](std::optional<double> value, int width, int digits) {
    return value ? fmt::format("{:>{}.{}f}", *value, width, digits)
                 : fmt::format("{:>{}}", "-", width);
  };
  const auto scaled = [&](std::optional<double> value, double factor, int width, int digits) {
    return cell(value ? std::optional(*value * factor) : value, width, digits);
  };
  const auto ms = [&](std::optional<double> seconds) { return scaled(seconds, 1e3, 9, 3); };
  constexpr double mebibytes = 1.0 / (1 << 20);
  fmt::print("{:>7} {} {} {} {} {} {} {} {} {} {} {} {}\n", result.workers, ms(result.median),
             ms(result.q1), ms(result.q3), ms(result.mean), cell(result.rate, 10, 0),
             ms(result.compute), ms(result.exposed), ms(result.hidden), ms(result.floor),
             scaled(result.memory, mebibytes, 8, 1), scaled(result.start, 1e3, 9, 1),
             scaled(result.sent, mebibytes, 9, 3));
  std::fflush(stdout);
}

// Adds a line to the file that --json named.
inline void write_json(const Arguments& arguments, const Result& result) {
  const Workload workload = workload_of(arguments);
  const auto json = [](std::optional<double> value) {
    return value ? fmt::format("{:.6g}", *value) : "null";
  };
  std::ofstream file(arguments.json, std::ios::app);
  file
      << fmt::format(
             R"({{"benchmark": "train_step", "model": "{}", "batch": {}, "workers": {}, "launcher": "{}", )"
             R"("device": "{}", "backend": "{}", )"
             R"("overlap": {}, "steps": {}, "median": {}, "q1": {}, "q3": {}, "mean": {}, "compute": {}, )"
             R"("exposed": {}, "hidden": {}, "floor": {}, "samples_per_second": {}, "pss_bytes": {}, )"
             R"("start": {}, "hook": "{}", "sent_bytes": {}}})",
             arguments.model, workload.batch, result.workers, arguments.launcher, arguments.device,
             result.backend, arguments.overlap == "on", workload.steps, json(result.median),
             json(result.q1), json(result.q3), json(result.mean), json(result.compute),
             json(result.exposed), json(result.hidden), json(result.floor), json(result.rate),
             json(result.memory), json(result.start), arguments.hook, json(result.sent))
      << '\n';
  if (!file.flush()) throw ConfigError("cannot write " + arguments.json);
}

}  // namespace lockstep::benchmarks
