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

  // One update: begin() before its first forward pass, start() behind its last, then end() once
  // everything enqueued on `stream` so far is done. `rows` is what this rank's forward passes were
  // given. When the update was not `used`, the buffers are what they were at begin().
  void begin();
  void start(std::int64_t rows, Stream& stream);
  void end(bool used);

  // Collective: equal on all ranks from here to the next forward pass in training.
  void synchronize(Stream& stream);

 private:
  void pack(double weight);
  void unpack();

  comm::Communicator& communicator_;
  BufferPolicy policy_;
  std::vector<Tensor> buffers_;
  std::vector<Tensor> before_;  // their values at begin()
  std::vector<Tensor> parts_;   // of packed_, shaped as the buffers
  Tensor packed_;               // float64: sums of rows * value, and of the rows
  comm::Work work_;
};

}  // namespace lockstep::train
