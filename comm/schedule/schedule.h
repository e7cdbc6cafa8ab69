// Schedules: an algorithm as data. A list of steps for each rank says which slice of the data goes
// from whom to whom and what happens to it, without knowing what memory or what wire carries it.
// Executors run the lists; tests and cost models read them.
//
// The data is cut into Schedule::slices slices (slice_of). Messages between two ranks arrive in the
// order in which they were sent.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::comm::schedule {

enum class Action : std::uint8_t {
  // Messages. A partial is the reduction of some ranks' contributions to a slice.
  send,                       // the own contribution
  receive_reduce_send,        // adds the own contribution to a partial and passes it on
  receive_reduce_store_send,  // the same where it completes the slice: stores it and passes it on
  receive_reduce_store,       // the same and does not
  send_complete,              // a slice that is complete here from the start
  receive_store_send,         // stores a complete slice and passes it on
  receive_store,              // stores a complete slice
  // Shared memory, a peer at a time: reads slices of `from`, once that rank has done `after` of its
  // steps. Nobody's memory may change hands before all ranks have done all their steps.
  reduce_from,           // adds its partial to the own one, the lower rank's first
  reduce_complete_from,  // the same where it completes the slices
  store_from,            // stores its complete slices
  // Shared memory, all at once: reads every rank's contribution in the order of the ranks. No rank
  // enters before all have, nor leaves before all are done.
  reduce_all_store,      // stores the complete slices at itself
  reduce_all_store_all,  // writes them to every rank
};

std::string_view name_of(Action action);

struct Step {
  static constexpr int nobody = -1;
  Action action = Action::send;
  int slice = 0;  // the first of `slices`
  int from = nobody;
  int to = nobody;
  int slices = 1;
  int after = 0;
  bool operator==(const Step&) const = default;
};

using Steps = std::vector<Step>;

// One rank's part of an algorithm.
struct Schedule {
  int slices = 1;  // the same on every rank
  Steps steps;
};

using Algorithm = Schedule (*)(int rank, int size);

// Ring all-reduce (Patarasuk and Yuan: "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", JPDC 2009): reduce-scatter around the ring, then all-gather around it. 2 (n - 1)
// messages of one slice from each rank to its right neighbour. Slice s is summed in the order of
// ranks s + 1, s + 2, ..., s.
Schedule ring_all_reduce(int rank, int size);

// The two halves of it as collectives of their own. Rank r completes slice r, or begins with it.
Schedule ring_reduce_scatter(int rank, int size);
Schedule ring_all_gather(int rank, int size);

// Along the ring, all data as one slice: from `root` on, or, in the order of ranks root + 1, ...,
// root, to it. In pieces one after the other a chain moves as many bytes per rank and time as the
// link carries.
Schedule ring_broadcast(int rank, int size, int root);
Schedule ring_reduce(int rank, int size, int root);

// Each rank completes its own slice for all, in the order of the ranks 0, 1, ...
Schedule two_shot_all_reduce(int rank, int size);

// Each rank completes everything for itself, in the order of the ranks.
Schedule one_shot_all_reduce(int rank, int size);

// Recursive halving, then doubling (Rabenseifner: "Optimization of collective reduction
// operations", ICCS 2004), with partners at distance 1, 2, 4, ...: in every step two partners halve
// what both hold a partial of, until each holds a complete slice; then they hand these back in the
// reverse order. 2 log2(n) steps. For powers of two every element is summed in the order of the
// balanced binary tree over the ranks, ((0 + 1) + (2 + 3)) + ...; descending distances would not do
// so. The slices lie in bit-reversed places. Of n = m + extra ranks, m a power of two, the first
// 2 extra ones fold in pairs, the even one of which works for both.
Schedule halving_doubling_all_reduce(int rank, int size);

// The baseline: rank 0 adds up what all others have, one after the other, and they take the result.
// All bytes cross rank 0's memory, and the others wait for it.
Schedule reduce_broadcast_all_reduce(int rank, int size);

}  // namespace lockstep::comm::schedule
