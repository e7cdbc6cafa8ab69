// The proof that replicas are identical: digests of all that training changes, compared over all
// ranks.
//
// A digest is the sum, modulo 2^64, of the hashes of blocks, each seeded with the tensor's name and
// the block's place in it. So equal values do not cancel and an exchange of two is seen, and the
// blocks may be taken in any order, in parallel, whatever the layout of the arena.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "framework/tensor/tensor.h"
#include "train/parallel/replica.h"

namespace lockstep::train {

// A tensor that must hold the same bits on every rank. Contiguous.
struct ReplicatedTensor {
  std::string name;  // "parameter 'hidden.0.weight'", as messages say it
  Tensor tensor;
  bool is_parameter = false;  // counts for the digest of the weights
};

// The parameters, the model's buffers and, unless each rank has a shard of its own, the optimizer's
// state.
std::vector<ReplicatedTensor> replicated_tensors(Replica& replica);

// What a check found, the same on every rank.
struct Divergence {
  std::int64_t step = 0;
  std::string who;                // "rank 2 differs from the others"
  std::vector<int> ranks;         // the odd ones out
  int reference = 0;              // the lowest rank of those that agree, else rank 0
  std::string tensor;             // the first that differs
  std::size_t tensors = 0;        // how many differ
  std::int64_t elements = 0;      // of the first: how many differ, on the worst rank
  double largest_difference = 0;  // of the first: infinite where one side is not finite

  std::string describe() const;
};

class ConsistencyCheck {
 public:
  // The tensors are the same in number, order and shape on every rank.
  ConsistencyCheck(Context& context, comm::Communicator& communicator,
                   std::vector<ReplicatedTensor> tensors);

  // Collective: one exchange of 64 bits when all is well; up to three more that find the first
  // tensor that differs, where it does not.
  std::optional<Divergence> run(std::int64_t step, Stream& stream);
  // NumericError naming the first parameter with a value that is not finite. Of equal replicas it
  // is the same on every rank.
  void require_finite_parameters(std::int64_t step) const;
  // Collective: every rank takes all values of rank `reference`.
  void take_values_of(int reference, Stream& stream);

  // Of the parameters, as of the last run(): 16 hexadecimal digits. Equal wherever names and values
  // are, for any number of ranks and any layout.
  std::string weights_digest() const;

 private:
  void compute_digests();
  bool parameters_are_finite() const;
  std::uint64_t total() const;
  void measure(Divergence& divergence, std::size_t tensor, Stream& stream) const;

  Context& context_;
  comm::Communicator& communicator_;
  std::vector<ReplicatedTensor> tensors_;
  std::vector<Tensor> values_;         // of tensors_
  std::vector<std::uint64_t> seeds_;   // by tensor: the hash of its name
  Tensor flag_;                        // int32 [1]: a value is not finite
  Tensor digests_on_device_;           // int64
  std::vector<std::int64_t> digests_;  // by tensor; the bits of an unsigned sum
};

}  // namespace lockstep::train
