// The ring all-reduce over shared memory: executes schedule::ring_all_reduce() with messages that
// travel through small queues, one from each rank to its right neighbour.
//
// A slice travels in pieces, two of which make a step, so that a rank works on one while its
// neighbour works on the other. The queue has room for two steps. Partials travel in the
// accumulator type: 16-bit floats are rounded once, when the sum is complete.
#pragma once

#include <memory>

#include "comm/host_communicator.h"
#include "comm/memory/group.h"
#include "comm/ring/cpu/reduce_kernels.h"
#include "comm/schedule/recorder.h"
#include "comm/schedule/schedule.h"

namespace lockstep::comm::ring {

class RingPipeline {
 public:
  // Bytes of zeroed group memory that each rank gives.
  static std::size_t bytes();

  RingPipeline(const Group& group, std::shared_ptr<SymmetricBuffer> memory,
               schedule::Recorder* recorder);

  // In place on call.data. The ranks have agreed on the call.
  void all_reduce(const Collective& call);

 private:
  static constexpr std::size_t piece_bytes = std::size_t{128} << 10;
  static constexpr int pieces_per_step = 2;
  static constexpr std::uint32_t depth = 2 * pieces_per_step;

  // One rank's queue to its right neighbour. The counters never go back; they wrap.
  struct Queue {
    alignas(64) Signal sent;      // posted by the owner
    alignas(64) Signal received;  // posted by the neighbour
    alignas(128) std::byte pieces[depth][piece_bytes];
  };

  Queue& queue_of(int rank) const;
  // One piece of one step: `count` elements of the data, from `first` on.
  void execute(const schedule::Step& step, std::int64_t first, std::size_t count,
               const StepKernels& kernels, const Collective& call);
  const std::byte* await_piece(const Collective& call);  // from the left; until release_piece()
  void release_piece();
  std::byte* await_room(const Collective& call);  // to the right; until send_piece()
  void send_piece();

  const Group& group_;
  std::shared_ptr<SymmetricBuffer> memory_;
  int left_, right_;
  schedule::Steps steps_;
  schedule::Recorder* recorder_;  // may be null
  std::uint32_t sent_ = 0;
  std::uint32_t received_ = 0;
};

}  // namespace lockstep::comm::ring
