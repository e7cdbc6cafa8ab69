// PeerSteps: executes schedules whose steps read the memory of one peer at a time, such as
// halving-doubling. Each rank posts how many of its steps it has done; a step waits for its peer
// alone.
#pragma once

#include <memory>
#include <span>

#include "comm/host_communicator.h"
#include "comm/memory/group.h"
#include "comm/ring/cpu/reduce_kernels.h"
#include "comm/schedule/recorder.h"
#include "comm/schedule/schedule.h"

namespace lockstep::comm::ring {

class PeerSteps {
 public:
  // Bytes of zeroed group memory that each rank gives.
  static std::size_t bytes() { return sizeof(Progress); }

  PeerSteps(const Group& group, std::shared_ptr<SymmetricBuffer> memory,
            schedule::Algorithm algorithm, schedule::Recorder* recorder);

  // Reduces `count` elements in place at data[r] + offset of every rank r; each rank runs it on the
  // same range. The elements are accumulators of `dtype`. The ranks have met; when this returns,
  // peers may still be reading this rank's data.
  void run(const Collective& call, DType dtype, std::span<std::byte* const> data,
           std::size_t offset, std::int64_t count);

 private:
  void await_peer(const schedule::Step& step, const Collective& call) const;
  void execute(const schedule::Step& step, std::byte* mine, const std::byte* theirs,
               std::size_t count, const StepKernels& kernels) const;

  // Counts steps, of all runs. Never goes back; it wraps.
  struct alignas(64) Progress {
    Signal done;
  };
  Signal& done(int rank) const {
    return reinterpret_cast<Progress*>(memory_->part(rank).data())->done;
  }

  const Group& group_;
  std::shared_ptr<SymmetricBuffer> memory_;
  schedule::Schedule schedule_;
  schedule::Recorder* recorder_;  // may be null
  std::uint32_t longest_ = 0;     // steps of the rank that has most
  std::uint32_t begun_ = 0;       // what all ranks' counts are at most when a run begins
};

}  // namespace lockstep::comm::ring
