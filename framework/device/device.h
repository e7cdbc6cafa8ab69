// What a rank computes on.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::device {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  // the ordinal of a GPU; 0 for the CPU
  bool operator==(const Device&) const = default;
};

std::string to_string(Device device);  // "cpu", "cuda:3"

}  // namespace lockstep::device

namespace lockstep {
using device::Device;
using device::DeviceKind;
}  // namespace lockstep
