// Which algorithm is the fastest at which size: what comm.tuning_file names.
#pragma once

#include <cmath>
#include <fstream>

#include "benchmarks/all_reduce_rank.h"
#include "comm/ring/algorithm_table.h"
#include "train/tuning_file.h"

namespace lockstep::benchmarks {

// An algorithm takes over from that of the size below only when it is faster by so much: noise
// should not make a table of many rows.
inline constexpr double worth_a_change = 0.95;

class Tuner {
 public:
  Tuner(const Arguments& arguments, train::Worker& worker, train::Machine machine)
      : arguments_(arguments),
        worker_(worker),
        machine_(std::move(machine)),
        largest_(base::parse_bytes(arguments.maximum)) {
    for (const std::string_view name : comm::ring::algorithm_names())
      benches_.push_back(std::make_unique<RankBench>(
          arguments,
          make_communicator(arguments, fmt::format("tune-{}/", name), worker, Device{},
                            {.algorithm = std::string(name)}),
          nullptr, largest_));
  }

  void run() {
    if (is_first()) print_heading();
    for (const std::size_t bytes : sizes_of(arguments_)) measure(bytes);
    if (!is_first()) return;
    rows_.back().up_to = 0;
    const std::string table = text();
    fmt::print("{}\n", table);
    save(table);
  }

 private:
  struct Row {
    std::size_t algorithm = 0;
    std::size_t up_to = 0;  // bytes; 0: all
  };

  bool is_first() const { return worker_.rank() == 0; }

  void print_heading() const {
    fmt::print("# {} ranks ({}), microseconds\n{:>12}", worker_.world_size(), arguments_.launcher,
               "size (B)");
    for (const std::string_view name : comm::ring::algorithm_names()) fmt::print(" {:>16}", name);
    fmt::print("\n");
  }

  // All algorithms in turn, so that a slow spell of the machine falls on each of them.
  void measure(std::size_t bytes) {
    const int calls =
        static_cast<int>(std::clamp<std::size_t>((std::size_t{10} << 20) / bytes, 2, 500));
    std::vector<std::vector<double>> seconds(benches_.size());
    for (int round = -1; round < arguments_.rounds; ++round) {
      for (std::size_t a = 0; a < benches_.size(); ++a) {
        benches_[a]->resize(bytes);
        if (round < 0) benches_[a]->clear();
        const double one = benches_[a]->time_round(round < 0 ? calls / 10 + 1 : calls);
        if (round >= 0) seconds[a].push_back(one);
      }
    }
    std::vector<double> medians;
    for (auto& of_one : seconds) medians.push_back(summarise(std::move(of_one)).median);
    if (is_first()) print(bytes, medians);
    choose(bytes, medians);
  }

  void print(std::size_t bytes, const std::vector<double>& seconds) const {
    fmt::print("{:>12}", bytes);
    for (const double one : seconds) fmt::print(" {:>16.1f}", one * 1e6);
    fmt::print("\n");
    std::fflush(stdout);
  }

  void choose(std::size_t bytes, const std::vector<double>& seconds) {
    // The border lies half way to the next size, on the scale of factors.
    const auto up_to = static_cast<std::size_t>(static_cast<double>(bytes) *
                                                std::sqrt(static_cast<double>(arguments_.factor)));
    const auto best = static_cast<std::size_t>(std::min_element(seconds.begin(), seconds.end()) -
                                               seconds.begin());
    if (rows_.empty() || seconds[best] < worth_a_change * seconds[rows_.back().algorithm])
      if (rows_.empty() || rows_.back().algorithm != best) rows_.push_back({best, 0});
    rows_.back().up_to = up_to;
  }

  // As comm.tuning has it.
  std::string text() const {
    std::vector<std::string> items;
    for (const Row& row : rows_) {
      items.emplace_back(comm::ring::algorithm_names()[row.algorithm]);
      if (row.up_to > 0) items.back() += fmt::format("<={}", row.up_to);
    }
    return fmt::format("{}", fmt::join(items, ", "));
  }

  // Beside what the file has for other ranks of this machine.
  void save(const std::string& table) const {
    train::TuningFile file{machine_, {}};
    if (std::ifstream(arguments_.tune).good()) {
      file = train::read_tuning_file(arguments_.tune);
      if (file.machine != machine_)
        throw ConfigError(arguments_.tune + " was measured on another machine: name another file");
    }
    file.all_reduce[arguments_.launcher][worker_.world_size()] = table;
    train::write_tuning_file(arguments_.tune, file);
  }

  const Arguments& arguments_;
  train::Worker& worker_;
  train::Machine machine_;
  std::size_t largest_;
  std::vector<std::unique_ptr<RankBench>> benches_;
  std::vector<Row> rows_;
};

}  // namespace lockstep::benchmarks
