// What a build without NCCL's header says.
#include "comm/nccl/nccl.h"

namespace lockstep::comm {
namespace {

constexpr const char* reason = "this program was built without NCCL";

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Store&, const NcclPlace&,
                                                     const CommunicatorOptions&) {
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
