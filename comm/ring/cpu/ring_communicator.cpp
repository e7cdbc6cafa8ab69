#include "comm/ring/cpu/ring_communicator.h"

#include "comm/ring/ring.h"

namespace lockstep::comm {

std::unique_ptr<Communicator> make_ring_communicator(std::unique_ptr<Group> group,
                                                     const CommunicatorOptions& options) {
  return std::make_unique<ring::RingCommunicator>(std::move(group), options);
}

}  // namespace lockstep::comm

namespace lockstep::comm::ring {

namespace {

AlgorithmTable table_of(const CommunicatorOptions& options, bool crowded) {
  if (options.algorithm != "auto") return AlgorithmTable::parse(options.algorithm);
  if (!options.tuning.empty()) return AlgorithmTable::parse(options.tuning);
  return AlgorithmTable::built_in(crowded);
}

}  // namespace

RingCommunicator::RingCommunicator(std::unique_ptr<Group> group, const CommunicatorOptions& options)
    : HostCommunicator(options),
      group_(std::move(group)),
      exchange_(*group_, device::Clock::now() + options.timeout),
      table_(table_of(options, exchange_.is_crowded())),
      staging_(exchange_.allocate(Staging::bytes(), device::Clock::now() + options.timeout)),
      pipeline_(*group_,
                exchange_.allocate(RingPipeline::bytes(), device::Clock::now() + options.timeout),
                options.recorder),
      halving_doubling_(
          *group_, exchange_.allocate(PeerSteps::bytes(), device::Clock::now() + options.timeout),
          schedule::halving_doubling_all_reduce, options.recorder),
      reduce_broadcast_(
          *group_, exchange_.allocate(PeerSteps::bytes(), device::Clock::now() + options.timeout),
          schedule::reduce_broadcast_all_reduce, options.recorder) {}

const Capabilities& RingCommunicator::capabilities() const {
  static const Capabilities capabilities = [] {
    Capabilities all = all_capabilities(DeviceKind::cpu);
    all.wants_addressable_memory = true;
    all.cost = ring_cost;
    return all;
  }();
  return capabilities;
}

std::shared_ptr<SymmetricBuffer> RingCommunicator::addressable_memory(std::size_t bytes) {
  return exchange_.allocate(bytes, device::Clock::now() + options().timeout);
}

void RingCommunicator::abort(int rank, const std::string& cause) {
  group_->abort(rank, cause);
}

void RingCommunicator::do_barrier(const Collective& call) {
  exchange_.meet(call);
}

std::unique_ptr<Communicator> RingCommunicator::do_split(const Collective& call, int color,
                                                         int key) {
  exchange_.meet(call);
  std::unique_ptr<Group> part = group_->split(color, key, call.deadline);
  return part ? make_ring_communicator(std::move(part), options()) : nullptr;
}

void RingCommunicator::staged_round(const Collective& call, Begun& begun) {
  if (begun == Begun::no) {
    exchange_.meet(call);
    begun = Begun::met;
  } else {
    exchange_.synchronize(call);
  }
}

ByteRange RingCommunicator::slice_bytes(const Range& data, int rank) const {
  const std::size_t element = base::size_of(data.dtype);
  const Slice slice = slice_of(data.count, rank, size());
  return {static_cast<std::size_t>(slice.begin) * element,
          static_cast<std::size_t>(slice.count()) * element};
}

std::size_t RingCommunicator::longest_slice_bytes(const Range& data) const {
  const std::int64_t longest = (data.count + size() - 1) / size();
  return static_cast<std::size_t>(longest) * base::size_of(data.dtype);
}

std::size_t RingCommunicator::slot_bytes() const {
  return Staging::capacity / static_cast<std::size_t>(size()) / 64 * 64;
}

}  // namespace lockstep::comm::ring
