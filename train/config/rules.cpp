#include "train/config/rules.h"

#include <fmt/format.h>

namespace lockstep::train {

std::vector<BrokenRule> broken_rules(const Config& config) {
  std::vector<BrokenRule> broken;
  if (config.train.accumulate > config.train.batch_size) {
    broken.push_back(
        {"train.accumulate", fmt::format("found {}, expected at most train.batch_size, which is {}",
                                         config.train.accumulate, config.train.batch_size)});
  }
  if (config.optimizer.nesterov && config.optimizer.momentum == 0) {
    broken.push_back(
        {"optimizer.nesterov", "found true with optimizer.momentum: 0, expected momentum > 0"});
  }
  if (config.optimizer.per_bucket == "on" && config.train.on_nonfinite == "skip") {
    broken.push_back({"optimizer.per_bucket",
                      "found on, expected auto or off with train.on_nonfinite: skip, which decides "
                      "over all gradients before the first is applied"});
  }
  if (config.run.name && (config.run.name->find('/') != std::string::npos ||
                          *config.run.name == "." || *config.run.name == "..")) {
    broken.push_back(
        {"run.name",
         fmt::format("found {}, expected the name of a folder without a path", *config.run.name)});
  }
  return broken;
}

}  // namespace lockstep::train
