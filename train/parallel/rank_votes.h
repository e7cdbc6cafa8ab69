// Who is right when ranks disagree: the largest group of ranks that hold the same value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::train {

struct Votes {
  int reference = 0;      // the lowest rank of the largest group; of equal ones the lowest rank's
  bool majority = false;  // whether that group holds more than half of the ranks
  std::vector<int> odd;   // the ranks outside it
};

Votes count_votes(std::span<const std::int64_t> by_rank);

// "rank 2 differs from the others", "ranks 1, 3 differ from the others"; of two ranks or without a
// majority nobody is right: "ranks 0 and 1 differ".
std::string in_words(const Votes& votes);

}  // namespace lockstep::train
