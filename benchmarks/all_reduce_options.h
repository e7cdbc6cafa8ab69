// The command line of all_reduce.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "benchmarks/rank.h"
#include "framework/base/units.h"

namespace lockstep::benchmarks {

struct Arguments : RankOptions {
  int ranks = 8;
  std::string memory = "addressable";
  std::string stream = "inline";
  std::string pin = "auto";
  std::string type = "float32", op = "sum";
  std::string minimum = "4KiB", maximum = "64MiB";
  int factor = 4;
  int iterations = 0, warmup = -1;
  int rounds = 5;
  bool check = false;
  bool floors = true;
  std::string json, csv, tune, record;
};

// Of a file that is to be written.
inline std::string expect_a_path(const std::string& text) {
  return text.empty() ? "expected a file" : "";
}

// Reads the command line into `arguments` when `app` parses.
inline void describe(CLI::App& app, Arguments& arguments) {
  app.add_option("--ranks", arguments.ranks)->check(CLI::Range(1, 64));
  describe_ranks(app, arguments);
  app.add_option("--memory", arguments.memory, "where the data lies")
      ->check(CLI::IsMember({"addressable", "foreign"}));
  app.add_option("--stream", arguments.stream,
                 "inline: blocking, on the calling thread; thread: on a communication thread; of a "
                 "GPU always its own")
      ->check(CLI::IsMember({"inline", "thread"}));
  app.add_option("--pin", arguments.pin, "confine each rank to cores of its own: compute.pin")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  app.add_option("--type", arguments.type, "of the elements")
      ->check(
          CLI::IsMember({"float32", "float64", "bfloat16", "float16", "int32", "int64", "uint8"}));
  app.add_option("--op", arguments.op)->check(CLI::IsMember({"sum", "avg", "max", "min"}));
  app.add_option("--min", arguments.minimum, "smallest size in bytes, units allowed")
      ->check([](const std::string& text) {
        return text.find_first_of("123456789") == std::string::npos ? "expected at least 1" : "";
      });
  app.add_option("--max", arguments.maximum, "largest size");
  app.add_option("--factor", arguments.factor, "from one size to the next")
      ->check(CLI::Range(2, 1024));
  app.add_option("--iterations", arguments.iterations, "calls in a round; 0: by size")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--warmup", arguments.warmup, "calls before the first round; -1: by iterations")
      ->check(CLI::Range(-1, 1000000));
  app.add_option("--rounds", arguments.rounds)->check(CLI::Range(1, 1000));
  app.add_flag("--check", arguments.check, "verify every element");
  app.add_flag("--floors,!--no-floors", arguments.floors, "measure what memory allows");
  app.add_option("--json", arguments.json, "write the rows to this file")->check(expect_a_path);
  app.add_option("--csv", arguments.csv, "the same as comma-separated values")
      ->check(expect_a_path);
  app.add_option("--tune", arguments.tune,
                 "measure every algorithm of the ring backend instead, and put the fastest of each "
                 "size into this file for comm.tuning_file, beside what it has for other ranks")
      ->check(expect_a_path);
  app.add_option("--record", arguments.record,
                 "run one all-reduce of the largest size instead, and write the steps that ran to "
                 "this file (algorithms ring, halving_doubling, reduce_broadcast)")
      ->check(expect_a_path);
}

inline std::vector<std::size_t> sizes_of(const Arguments& arguments) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = base::parse_bytes(arguments.minimum);
       bytes <= base::parse_bytes(arguments.maximum);
       bytes *= static_cast<std::size_t>(arguments.factor))
    sizes.push_back(bytes);
  return sizes;
}

}  // namespace lockstep::benchmarks
