// In a build without CUDA.
#include "comm/ring/ring.h"
#include "framework/base/error.h"

namespace lockstep::comm {

std::unique_ptr<Communicator> make_cuda_ring_communicator(std::unique_ptr<Group>, int,
                                                          const CommunicatorOptions&) {
  throw StartupError("backend ring: this program was built without CUDA");
}

std::string cuda_ring_algorithm(const std::string& asked, std::size_t, int) {
  return asked;
}

device::PeerLink slowest_link(std::span<const int>) {
  return device::PeerLink::pcie;
}

bool gpus_reach_each_other(std::span<const int>) {
  return false;
}

}  // namespace lockstep::comm
