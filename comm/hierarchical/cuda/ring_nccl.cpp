#include "comm/hierarchical/ring_nccl.h"

#include <fmt/format.h>

#include "comm/hierarchical/cuda/hierarchical_communicator.h"

namespace lockstep::comm {

std::unique_ptr<Communicator> make_ring_nccl_communicator(std::unique_ptr<Group> host,
                                                          HostMap hosts, Store& store,
                                                          const NcclPlace& place,
                                                          const CommunicatorOptions& options,
                                                          const ring::cuda::Shape& shape) {
  if (!hosts.is_even())
    throw ConfigError(fmt::format(
        "comm.backend: found {}, expected the same number of ranks on every host for ring+nccl",
        hosts.describe()));
  // Who waits across waits a little longer, so that those on its host name a rank that is late.
  CommunicatorOptions across = options;
  across.timeout += options.timeout / 10;
  try {
    auto world = connect_nccl(store, place, across);
    auto inside = std::make_unique<ring::cuda::CudaRingCommunicator>(
        std::move(host), place.device.index, options, shape);
    return std::make_unique<HierarchicalCommunicator>(
        std::move(inside), std::move(world), std::move(hosts),
        device::CudaPlace{place.device.index, place.rank}, store, place.prefix + "/hierarchical",
        place.start_timeout);
  } catch (const RankError& error) {
    throw StartupError(error.what());
  }
}

}  // namespace lockstep::comm
