#include "framework/device/out_of_memory.h"

#include <fmt/format.h>

#include "framework/base/units.h"

namespace lockstep::device {

OutOfMemory::OutOfMemory(std::size_t bytes, const std::string& memory)
    : text_(fmt::format("out of memory: {} has no room for a block of {}", memory,
                        base::format_bytes(bytes))) {}

}  // namespace lockstep::device
