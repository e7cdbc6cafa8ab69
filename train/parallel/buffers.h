// ModelBuffers: the state of a model that is not trained (batch-norm statistics), kept together
// over the ranks.
//
// In training a forward pass moves the buffers by the rows that its rank was given, so they drift
// apart; they are read in evaluation only. Two policies:
//
// - broadcast: rank 0's hold. PyTorch's DistributedDataParallel broadcasts them before each
//   forward pass. But rank 0's own are never changed by that, and nobody else's are read, so it is
//   enough to broadcast them where they are used: before an evaluation, a checkpoint or a
//   comparison of the replicas. The values are the same ones, at no cost in a step.
// - average: the mean over the ranks, weighted by the rows that each had in the update, so that all
//   rows count alike and a rank without rows not at all. It is formed after every update, in one
//   small all-reduce in double behind the buckets: that costs little, and the result is then a
//   function of the update alone and not of when a run was saved, evaluated or resumed.
//
// Used from the rank's own thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "framework/nn/module.h"

namespace lockstep::train {

enum class BufferPolicy { broadcast, average };  // data_parallel.buffers

class ModelBuffers {
 public:
  // The communicator and the context must outlive this. Buffers must be of a floating type
  // (UsageError naming the one that is not).
  ModelBuffers(Context& context, comm::Communicator& communicator, const nn::Module& model,
               BufferPolicy policy);

  // Collective: takes rank 0's.
  void broadcast(Stream& stream);

  // One update: begin() before its first forward pass, start() behind its last, then end(). `rows`
  // is what this rank's forward passes were given, `all_rows` what those of all ranks were. The
  // host waits for no GPU.
  void begin(std::int64_t update);
  void start(std::int64_t rows, std::int64_t all_rows, Stream& stream);
  void end();
  // They are what they were at the begin() of `update`, which is the last one or that before.
  void undo(std::int64_t update);

  // Collective: equal on all ranks from here to the next forward pass in training.
  void synchronize(Stream& stream);

 private:
  const std::vector<Tensor>& before(std::int64_t update) const {
    return before_[static_cast<std::size_t>(update % 2)];
  }
  void pack(double weight);
  void unpack();

  comm::Communicator& communicator_;
  BufferPolicy policy_;
  std::vector<Tensor> buffers_;
  std::array<std::vector<Tensor>, 2> before_;  // their values at begin(), of two updates
  std::vector<Tensor> parts_;                  // of packed_, shaped as the buffers
  Tensor packed_;                              // float64: sums of rows * value
  double all_rows_ = 0;                        // of the update
  comm::Work work_;
};

}  // namespace lockstep::train
