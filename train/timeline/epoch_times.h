// What the steps of an epoch came to on every rank, and which ranks the others waited for.
//
// A collective gets nowhere before the last rank has come to it. From when each rank began the same
// collective follows who was last and how long the others waited: of each one's own collective, the
// part before the last rank began its. So a rank waits no longer than its collectives take, and
// these no longer than its steps. This needs one clock: it means something for the ranks of one
// host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "train/parallel/host_values.h"
#include "train/timeline/step_parts.h"

namespace lockstep::train {

struct RankTimes {
  StepParts parts;        // summed over the steps
  std::int64_t last = 0;  // collectives that this rank came to last
  double waited_for = 0;  // seconds that the others waited for it, their mean
};

struct EpochTimes {
  std::vector<RankTimes> ranks;
  std::int64_t collectives = 0;

  StepParts mean() const;  // over the ranks
  int slowest() const;     // the rank that was waited for longest
  // Of the others' steps, the part in which they waited for this rank; at most 1.
  double waited_share(int rank) const;
};

class EpochRecorder {
 public:
  EpochRecorder(Context& context, comm::Communicator& communicator);

  // The parts of a step and its finished collectives, as many on every rank. Collective now and
  // then, when many have come together; takes no memory.
  void add(const StepParts& parts, std::span<const comm::Work> works, Stream& stream);
  // Collective: the sums since the last call.
  EpochTimes take(Stream& stream);

 private:
  void exchange(Stream& stream);

  Context& context_;
  comm::Communicator& communicator_;
  StepParts parts_;
  std::vector<std::int64_t> last_;  // by rank: collectives that it came to last
  std::vector<double> waits_;       // by rank: seconds that this one waited for it
  std::int64_t collectives_ = 0;
  std::int64_t free_at_ = 0;         // nanoseconds: the end of the last own collective
  std::size_t count_ = 0;            // of starts that were not exchanged yet
  std::vector<std::int64_t> ends_;   // of this rank, beside its starts
  HostValues<std::int64_t> starts_;  // nanoseconds; a window for each rank, of which this one's is
                                     // filled
};

}  // namespace lockstep::train
