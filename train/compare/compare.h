// `train compare`: the same training over several backends and algorithms, side by side.
//
// Each is a run of its own, started as a user would start it, with the same configuration, seed and
// number of steps; what is compared is what those runs recorded. They run in turns, several times
// over, so that a change in the machine's load meets all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/config/load.h"

namespace lockstep::train {

struct Contender {
  std::string backend;
  std::string algorithm;
  std::string name() const;  // "ring two_shot"
};

// Updates of a run that warm it up, left out of the medians.
inline constexpr std::int64_t warm_up_steps = 5;

struct CompareOptions {
  std::string config;
  std::vector<Override> overrides;
  int workers = 1;
  std::vector<Contender> contenders;
  std::int64_t steps = 60;
  int rounds = 3;
};

// What a contender's runs came to. Times are medians over the steps of all its rounds, in seconds.
struct Measured {
  Contender contender;
  std::string failure;  // why its run ended, where it failed; the rest is empty then
  double step = 0;
  double compute = 0;        // forward, backward and update
  double communication = 0;  // of all buckets
  double exposed = 0;
  double start_up = 0;
  double bytes = 0;  // of a step, as each rank gives them
  double final_loss = 0;
  std::vector<std::string> weights;  // digests, by step

  double hidden() const { return communication > exposed ? communication - exposed : 0; }
  double bus_bandwidth(int workers) const;  // bytes per second
};

// In which step the weights differ from those of the first contender; 0: in none.
std::int64_t first_difference(const Measured& reference, const Measured& other);

// ConfigError, before anything runs, where a run's configuration would be refused. Runs all of it,
// printing a line for each run; the folder of the comparison holds the runs, comparison.json and
// comparison.html. Returns the program's exit code: that of the first failed run.
int compare(const CompareOptions& options);

}  // namespace lockstep::train
