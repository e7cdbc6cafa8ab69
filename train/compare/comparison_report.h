// The outcome of a comparison as a table for the terminal, as JSON, and as a page with the overlap
// drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/compare/compare.h"

namespace lockstep::train {

struct ComparisonReport {
  std::string config;
  int workers = 1;
  std::int64_t steps = 0;
  int rounds = 0;
  std::vector<Measured> measured;  // the first is what the others' weights are compared with

  std::string table() const;
  std::string json() const;
  std::string html() const;  // one file, nothing beside it
};

}  // namespace lockstep::train
