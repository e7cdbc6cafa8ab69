#include "framework/device/device.h"

namespace lockstep::device {

std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

}  // namespace lockstep::device
