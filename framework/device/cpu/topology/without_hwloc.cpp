#include "framework/device/cpu/placement.h"

namespace lockstep::device {

std::optional<Topology> allowed_topology() {
  return std::nullopt;
}

std::optional<Topology> synthetic_topology(const std::string&, const std::vector<int>&) {
  return std::nullopt;
}

}  // namespace lockstep::device
