// The communication hooks that a configuration can name (data_parallel.hook). docs/hooks.md tells
// how to write one; a program that builds its own Replica gives its hook in ReplicaOptions, one
// that `train` should know gets a line in hooks.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/parallel/replica.h"

namespace lockstep::train {

struct HookOptions {
  double top_k_ratio = 0.01;
  int power_sgd_rank = 4;
  std::int64_t power_sgd_start = 100;
  std::uint64_t seed = 0;
  // Updates may be left out because their gradients are not finite.
  bool may_skip = false;
};

struct HookSpec {
  std::string name;
  std::string summary;  // for the configuration's reference
  ReductionFactory (*make)(const HookOptions& options);
};

// In the order of the reference; "none" first.
const std::vector<HookSpec>& hooks();

// Throws ConfigError listing the known names. The factory is empty for "none".
ReductionFactory make_hook(std::string_view name, const HookOptions& options);

}  // namespace lockstep::train
