// Which ranks a value that is not finite came from, and from which sample. An exchange that only a
// failure pays for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/loader.h"

namespace lockstep::train {

struct Culprit {
  int rank = 0;
  // The first feature of the rank's batch that is not finite; -1 where all are.
  std::int64_t sample = -1;   // in the split
  std::int64_t element = -1;  // in the sample
};

// Collective. `at_fault`: whether this rank's own loss or gradients were not finite. Empty when no
// rank's were: then only their sum was not.
std::vector<Culprit> find_culprits(comm::Communicator& communicator, Stream& stream, bool at_fault,
                                   const data::Batch& batch);

// "on rank 3 (sample 700 of 'data.h5' has a feature that is not finite, element 5)"
std::string describe(const std::vector<Culprit>& culprits, const std::string& data_file);

}  // namespace lockstep::train
