// Tuning files: which algorithm an all-reduce of which size takes, measured on one machine by
// `benchmarks/all_reduce --tune`, for each number and kind of ranks. YAML:
//
//   format: lockstep-tuning
//   version: 1
//   machine: {processor: "AMD EPYC 9R14", cores: 2}
//   all_reduce:
//     processes: {2: "one_shot<=64KiB, two_shot", 4: "one_shot<=4KiB, two_shot"}
//     threads: {}
//
// The choice sets the order in which gradients are summed, and with it their last bits. So a file
// that does not fit is refused, and what it says for a run stands in that run's configuration
// (comm.tuning), from where its checkpoints have it.
#pragma once

#include <map>
#include <string>

#include "train/config/config.h"

namespace lockstep::train {

struct Machine {
  std::string processor;
  int cores = 0;  // that this thread may use
  bool operator==(const Machine&) const = default;
};
Machine this_machine();

struct TuningFile {
  Machine machine;
  // By the kind of ranks, "processes" or "threads", and their number; as comm.tuning has it.
  std::map<std::string, std::map<int, std::string>> all_reduce;
};

// Throws ConfigError with the place, what was found and what was expected.
TuningFile read_tuning_file(const std::string& file);
// UsageError where it cannot be written.
void write_tuning_file(const std::string& file, const TuningFile& tuning);

// What the file says for a run here. ConfigError where it was measured on another machine or not
// for such ranks; both say what it has.
std::string tuning_for(const TuningFile& tuning, const std::string& file, const Machine& machine,
                       const std::string& kind, int ranks);

// Puts what comm.tuning_file says for such ranks here into comm.tuning, in its place. Returns the
// file; empty, and nothing done, without one. ConfigError.
std::string take_tuning_file(Config::Comm& comm, const std::string& kind, int ranks);

}  // namespace lockstep::train
