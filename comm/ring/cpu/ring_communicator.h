// RingCommunicator: the collectives of ranks that share memory.
//
// Each collective exists in two forms. Direct: one round in which all ranks say where their data
// lies, then every rank reads from or writes to its peers' memory, then one round in which all have
// done so. Staged: every rank copies a chunk to where peers can read it, a round, every rank takes
// what it needs; no closing round (see staging.h). Staged serves memory that peers cannot address,
// and small messages, for which a round costs more than a copy.
#pragma once

#include <memory>
#include <vector>

#include "comm/host_communicator.h"
#include "comm/memory/group.h"
#include "comm/ring/algorithm_table.h"
#include "comm/ring/cpu/chunks.h"
#include "comm/ring/cpu/exchange.h"
#include "comm/ring/cpu/peer_steps.h"
#include "comm/ring/cpu/reduce_kernels.h"
#include "comm/ring/cpu/ring_pipeline.h"
#include "comm/ring/cpu/staging.h"

namespace lockstep::comm::ring {

class RingCommunicator final : public HostCommunicator {
 public:
  // Collective. Throws ConfigError for an unknown options.algorithm or options.tuning.
  RingCommunicator(std::unique_ptr<Group> group, const CommunicatorOptions& options);

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::string_view backend() const override { return "ring"; }
  const Capabilities& capabilities() const override;
  std::string_view algorithm_for(std::size_t bytes) const override {
    return name_of(table_.choose(bytes));
  }
  std::shared_ptr<SymmetricBuffer> addressable_memory(std::size_t bytes) override;
  void abort(int rank, const std::string& cause) override;

 private:
  void do_all_reduce(const Collective& call) override;
  void do_reduce(const Collective& call) override;
  void do_reduce_scatter(const Collective& call) override;
  void do_all_gather(const Collective& call) override;
  void do_broadcast(const Collective& call) override;
  void do_all_to_all(const Collective& call) override;
  void do_barrier(const Collective& call) override;
  std::unique_ptr<Communicator> do_split(const Collective& call, int color, int key) override;

  // How far the ranks have come when a staged form begins: it makes the first round itself, or the
  // ranks have met already and found that not all memory is addressable.
  enum class Begun : bool { no, met };

  void one_shot(const Collective& call);
  void two_shot(const Collective& call);
  void two_shot(const Collective& call, ByteRange chunk);
  void by_peer_steps(const Collective& call, PeerSteps& steps);
  void staged_by_peer_steps(const Collective& call, PeerSteps& steps, Begun begun);
  void staged_reduce(const Collective& call, Begun begun);
  void staged_reduce_scatter(const Collective& call, Begun begun);
  void staged_all_gather(const Collective& call, Begun begun);
  void staged_broadcast(const Collective& call, Begun begun);
  void staged_all_to_all(const Collective& call, Begun begun);

  // The round of a staged form, the first of which may be the meeting.
  void staged_round(const Collective& call, Begun& begun);
  // After meet_in_place(): this rank's part in reducing all ranks' data into every `to`.
  void share_reduction(const Collective& call, std::span<std::byte* const> to);
  // Reduces `bytes` at `from_offset` of every `from` into those at `to_offset` of every `to`.
  void reduce_range(const Collective& call, std::span<std::byte* const> from,
                    std::size_t from_offset, std::span<std::byte* const> to, std::size_t to_offset,
                    std::size_t bytes);

  // The slice of `data` that belongs to a rank.
  ByteRange slice_bytes(const Range& data, int rank) const;
  std::size_t longest_slice_bytes(const Range& data) const;
  // A half of the staging memory, cut into a slot for each rank.
  std::size_t slot_bytes() const;
  std::size_t slot_offset(int rank) const { return static_cast<std::size_t>(rank) * slot_bytes(); }

  std::unique_ptr<Group> group_;
  Exchange exchange_;
  AlgorithmTable table_;
  Staging staging_;
  RingPipeline pipeline_;
  PeerSteps halving_doubling_;
  PeerSteps reduce_broadcast_;
  std::vector<const std::byte*> inputs_;  // kept, so that a call allocates nothing
  std::vector<std::byte*> outputs_;
};

}  // namespace lockstep::comm::ring
