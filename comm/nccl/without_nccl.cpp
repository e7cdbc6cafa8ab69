// What a build without NCCL's header says.
#include "comm/hierarchical/ring_nccl.h"
#include "comm/nccl/nccl.h"

namespace lockstep::comm {
namespace {

constexpr const char* reason = "this program was built without NCCL";

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Store&, const NcclPlace&,
                                                     const CommunicatorOptions&) {
  throw StartupError(reason);
}

std::unique_ptr<Communicator> make_ring_nccl_communicator(std::unique_ptr<Group>, HostMap, Store&,
                                                          const NcclPlace&,
                                                          const CommunicatorOptions&,
                                                          const ring::cuda::Shape&) {
  throw StartupError(reason);
}

bool has_nccl() {
  return false;
}

std::string missing_nccl() {
  return reason;
}

std::string make_nccl_id() {
  throw StartupError(reason);
}

}  // namespace lockstep::comm
