// What has to hold between keys, each of which is right on its own.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace lockstep::train {

struct BrokenRule {
  std::string key;   // where to say it
  std::string text;  // what was found and what is expected
};

// Whether training goes on without an update whose gradients are not finite.
bool may_skip(const Config& config);

// The setting by which the host decides in the middle of an update (hooks that keep residuals:
// whether the step counted, and so which of two residuals is the next), so that it cannot enqueue
// the next one before this one is done, as "key: value"; empty for none.
std::string decided_on_host(const Config& config);

std::vector<BrokenRule> broken_rules(const Config& config);

}  // namespace lockstep::train
