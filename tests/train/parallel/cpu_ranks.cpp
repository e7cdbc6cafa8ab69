#include "comm/ring/ring.h"
#include "framework/device/cpu/cpu_context.h"
#include "tests/train/parallel/thread_ranks.h"

namespace lockstep::train {

std::unique_ptr<Context> make_rank_context(int /*rank*/) {
  return device::make_cpu_context(1);
}

std::unique_ptr<comm::Communicator> make_rank_communicator(
    Context& /*context*/, std::unique_ptr<comm::Group> group,
    const comm::CommunicatorOptions& options) {
  return comm::make_ring_communicator(std::move(group), options);
}

}  // namespace lockstep::train
