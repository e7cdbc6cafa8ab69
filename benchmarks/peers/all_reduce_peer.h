// Times all_reduce of another library as benchmarks/all_reduce times the project's own: in place,
// float32 sum; one call, many in a row, is the mean of a round on the slowest rank, and the median
// of the rounds. Prints a table and writes the same rows as JSON.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "framework/base/units.h"

namespace lockstep::benchmarks {

struct PeerArguments {
  std::string minimum = "4KiB", maximum = "64MiB";
  int factor = 4;
  int rounds = 5;
  std::string json;

  void add_to(CLI::App& app) {
    app.add_option("--min", minimum, "smallest size in bytes, units allowed");
    app.add_option("--max", maximum, "largest size");
    app.add_option("--factor", factor, "from one size to the next")->check(CLI::Range(2, 1024));
    app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000));
    app.add_option("--json", json, "write the rows to this file");
  }
};

// One rank of the library under test; its calls are collective.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce(std::span<float> data) = 0;
  virtual void barrier() = 0;
  virtual double largest(double value) = 0;  // of all ranks
};

class PeerBench {
 public:
  PeerBench(Peer& peer, const PeerArguments& arguments) : peer_(peer), arguments_(arguments) {}

  void run() {
    const std::size_t largest = base::parse_bytes(arguments_.maximum);
    std::vector<float> data(largest / sizeof(float));
    print_heading();
    for (std::size_t bytes = base::parse_bytes(arguments_.minimum); bytes <= largest;
         bytes *= static_cast<std::size_t>(arguments_.factor)) {
      data_ = std::span(data).first(bytes / sizeof(float));
      require_right_sums();
      rows_.push_back({bytes, time_calls()});
      print(rows_.back());
    }
    if (peer_.rank() == 0 && !arguments_.json.empty()) write_json();
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Row {
    std::size_t bytes = 0;
    double seconds = 0;
  };

  // Small whole numbers, so that every sum is exact in any order.
  void require_right_sums() {
    const auto value = [](std::size_t i, int rank) {
      return static_cast<float>((i + static_cast<std::size_t>(rank)) % 64);
    };
    for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = value(i, peer_.rank());
    peer_.all_reduce(data_);
    for (std::size_t i = 0; i < data_.size(); ++i) {
      float sum = 0;
      for (int rank = 0; rank < peer_.size(); ++rank) sum += value(i, rank);
      if (data_[i] != sum)
        throw std::runtime_error(
            fmt::format("element {} of {} is {}, expected {}", i, data_.size(), data_[i], sum));
    }
  }

  double time_round(int calls) {
    peer_.barrier();
    const auto start = Clock::now();
    for (int call = 0; call < calls; ++call) peer_.all_reduce(data_);
    return peer_.largest(std::chrono::duration<double>(Clock::now() - start).count() / calls);
  }

  double time_calls() {
    std::fill(data_.begin(), data_.end(), 0.0f);  // sums of zeros stay zeros, however often
    constexpr double round_seconds = 0.04;        // about what all_reduce's rounds take
    const double estimate = time_round(2);
    const int calls = static_cast<int>(std::clamp(round_seconds / estimate, 2.0, 2000.0));
    time_round(calls / 10 + 1);  // warms up
    std::vector<double> rounds;
    for (int round = 0; round < arguments_.rounds; ++round) rounds.push_back(time_round(calls));
    std::nth_element(rounds.begin(), rounds.begin() + arguments_.rounds / 2, rounds.end());
    return rounds[rounds.size() / 2];
  }

  double algbw(const Row& row) const { return static_cast<double>(row.bytes) / row.seconds * 1e-9; }
  double busbw(const Row& row) const { return algbw(row) * 2 * (peer_.size() - 1) / peer_.size(); }

  void print_heading() const {
    if (peer_.rank() != 0) return;
    fmt::print("# all_reduce: {} ranks, {}\n", peer_.size(), peer_.name());
    fmt::print("{:>12} {:>11} {:>9} {:>9}\n", "size (B)", "time (us)", "algbw", "busbw");
  }

  void print(const Row& row) const {
    if (peer_.rank() != 0) return;
    fmt::print("{:>12} {:>11.1f} {:>9.2f} {:>9.2f}\n", row.bytes, row.seconds * 1e6, algbw(row),
               busbw(row));
    std::fflush(stdout);
  }

  void write_json() const {
    std::ofstream file(arguments_.json);
    file << fmt::format(R"({{"benchmark": "all_reduce", "backend": "{}", "ranks": {}, "rows": [)",
                        peer_.name(), peer_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i)
      file << fmt::format(
          R"({}{{"bytes": {}, "seconds": {:.4e}, "algbw": {:.4f}, "busbw": {:.4f}}})",
          i == 0 ? "\n  " : ",\n  ", rows_[i].bytes, rows_[i].seconds, algbw(rows_[i]),
          busbw(rows_[i]));
    file << "\n]}\n";
    if (!file.flush()) throw std::runtime_error("cannot write " + arguments_.json);
  }

  Peer& peer_;
  const PeerArguments& arguments_;
  std::span<float> data_;
  std::vector<Row> rows_;
};

}  // namespace lockstep::benchmarks
