// What joins two GPUs of a host.
#pragma once

#include <cstdint>

namespace lockstep::device {

// From the fastest to the slowest. `none`: it is one and the same GPU.
enum class PeerLink : std::uint8_t { none, nvlink, pcie };

}  // namespace lockstep::device
