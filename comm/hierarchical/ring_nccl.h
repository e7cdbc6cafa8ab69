// ring+nccl: the own ring between the GPUs of each host, NCCL between hosts.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/hierarchical/host_map.h"
#include "comm/memory/group.h"
#include "comm/nccl/nccl.h"
#include "comm/ring/cuda/world.h"

namespace lockstep::comm {

// Collective; called on the rank's own thread. `host` is the group of the ranks of this one's host,
// in the order of their places. The store outlives the communicator. ConfigError where hosts have
// unequal numbers of ranks, StartupError as those of ring and nccl.
std::unique_ptr<Communicator> make_ring_nccl_communicator(std::unique_ptr<Group> host,
                                                          HostMap hosts, Store& store,
                                                          const NcclPlace& place,
                                                          const CommunicatorOptions& options,
                                                          const ring::cuda::Shape& shape = {});

}  // namespace lockstep::comm
