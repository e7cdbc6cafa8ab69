// The table of all_reduce, as nccl-tests has it, and the same as JSON and CSV.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "benchmarks/all_reduce_options.h"
#include "benchmarks/bench.h"
#include "framework/base/dtype.h"

namespace lockstep::benchmarks {

struct Row {
  std::size_t bytes = 0;
  std::string algorithm;  // that auto took, where the backend says
  double seconds = 0;
  double fused = 0, pairwise = 0;  // 0: not measured
  std::int64_t wrong = -1;         // -1: not checked
};

class AllReduceReport {
 public:
  AllReduceReport(const Arguments& arguments, std::string backend, int ranks)
      : arguments_(arguments), backend_(std::move(backend)), ranks_(ranks) {}

  void print_heading() const {
    fmt::print("# all_reduce in place: {} ranks ({}), backend {}, algorithm {}, {} memory, {}\n",
               ranks_, arguments_.launcher, backend_, arguments_.algorithm, arguments_.memory,
               arguments_.device == "cuda"     ? "on the GPU's stream"
               : arguments_.stream == "inline" ? "on the calling thread"
                                               : "on a communication thread");
    fmt::print("{:>12} {:>12} {:>8} {:>5} {:>11} {:>9} {:>9} {:>6} {:>11} {:>11} {:>8}\n",
               "size (B)", "count", "type", "op", "time (us)", "algbw", "busbw", "wrong",
               "fused (us)", "pairw. (us)", "x fused");
  }

  void add(const Row& row) {
    rows_.push_back(row);
    const auto optional = [](double value, double scale) {
      return value > 0 ? fmt::format("{:.1f}", value * scale) : std::string("-");
    };
    fmt::print("{:>12} {:>12} {:>8} {:>5} {:>11.1f} {:>9.2f} {:>9.2f} {:>6} {:>11} {:>11} {:>8}\n",
               row.bytes, count(row), arguments_.type, arguments_.op, row.seconds * 1e6, algbw(row),
               busbw(row), row.wrong < 0 ? "N/A" : std::to_string(row.wrong),
               optional(row.fused, 1e6), optional(row.pairwise, 1e6),
               row.fused > 0 ? fmt::format("{:.2f}", row.seconds / row.fused) : "-");
    std::fflush(stdout);
  }

  void write_files() const {
    if (!arguments_.json.empty()) write_file(arguments_.json, json());
    if (!arguments_.csv.empty()) write_file(arguments_.csv, csv());
  }

 private:
  std::size_t count(const Row& row) const {
    return row.bytes / base::size_of(base::dtype_from_name(arguments_.type));
  }
  double algbw(const Row& row) const { return static_cast<double>(row.bytes) / row.seconds * 1e-9; }
  double busbw(const Row& row) const { return algbw(row) * 2 * (ranks_ - 1) / ranks_; }

  std::string json() const {
    std::string text = fmt::format(
        R"({{"benchmark": "all_reduce", "backend": "{}", "ranks": {}, "launcher": "{}", )"
        R"("algorithm": "{}", "memory": "{}", "device": "{}", "stream": "{}", "type": "{}", "op": "{}", )"
        R"("in_place": true, "rows": [)",
        backend_, ranks_, arguments_.launcher, arguments_.algorithm, arguments_.memory,
        arguments_.device, arguments_.device == "cuda" ? "gpu" : arguments_.stream, arguments_.type,
        arguments_.op);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      text +=
          fmt::format(R"({}{{"bytes": {}, "count": {}, "algorithm": "{}", "seconds": {:.4e}, )"
                      R"("algbw": {:.4f}, "busbw": {:.4f}, "wrong": {}, "fused_floor": {:.4e}, )"
                      R"("pairwise_floor": {:.4e}}})",
                      i == 0 ? "\n  " : ",\n  ", row.bytes, count(row), row.algorithm, row.seconds,
                      algbw(row), busbw(row), row.wrong, row.fused, row.pairwise);
    }
    return text + "\n]}\n";
  }

  std::string csv() const {
    std::string text =
        "backend,algorithm,ranks,launcher,bytes,count,type,op,seconds,algbw,busbw,wrong,"
        "fused_floor,pairwise_floor\n";
    for (const Row& row : rows_)
      text += fmt::format("{},{},{},{},{},{},{},{},{:.4e},{:.4f},{:.4f},{},{:.4e},{:.4e}\n",
                          backend_, row.algorithm, ranks_, arguments_.launcher, row.bytes,
                          count(row), arguments_.type, arguments_.op, row.seconds, algbw(row),
                          busbw(row), row.wrong, row.fused, row.pairwise);
    return text;
  }

  const Arguments& arguments_;
  std::string backend_;
  int ranks_;
  std::vector<Row> rows_;
};

}  // namespace lockstep::benchmarks
