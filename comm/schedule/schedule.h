// Schedules: an algorithm as data. A list of steps for each rank says which slice of the data goes
// from whom to whom and what happens to it, without knowing what memory or what wire carries it.
// Executors run the lists; tests and cost models read them.
//
// The data is cut into as many slices as there are ranks (slice_of). Messages between two ranks
// arrive in the order in which they were sent.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::comm::schedule {

enum class Action : std::uint8_t {
  // Messages. A partial is the reduction of some ranks' contributions to a slice.
  send,                       // the own contribution
  receive_reduce_send,        // adds the own contribution to a partial and passes it on
  receive_reduce_store_send,  // the same where it completes the slice: stores it and passes it on
  receive_store_send,         // stores a complete slice and passes it on
  receive_store,              // stores a complete slice
  // Shared memory: reads every rank's contribution in the order of the ranks and writes the
  // complete
  // slice to every rank. No rank enters before all have, nor leaves before all are done.
  reduce_all_store_all,
};

struct Step {
  static constexpr int nobody = -1;
  Action action = Action::send;
  int slice = 0;
  int from = nobody;
  int to = nobody;
  bool operator==(const Step&) const = default;
};

using Steps = std::vector<Step>;

// Ring all-reduce (Patarasuk and Yuan: "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", JPDC 2009): reduce-scatter around the ring, then all-gather around it. 2 (n - 1)
// messages of one slice from each rank to its right neighbour. Slice s is summed in the order of
// ranks s + 1, s + 2, ..., s.
Steps ring_all_reduce(int rank, int size);

// Each rank completes its own slice for all, in the order of the ranks 0, 1, ...
Steps two_shot_all_reduce(int rank, int size);

}  // namespace lockstep::comm::schedule
