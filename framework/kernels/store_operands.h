// What Kernels::store() checks of its operands, on every kind of device.
#pragma once

#include "framework/kernels/dispatch.h"
#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

inline void require_store(std::span<const std::byte> bytes, const Tensor& out) {
  require_contiguous("store", "out", out);
  if (bytes.size() == out.bytes() && bytes.size() <= most_stored_bytes) return;
  throw UsageError(
      fmt::format("store: found {} bytes for a tensor of {}, expected as many and at "
                  "most {}",
                  bytes.size(), out.bytes(), most_stored_bytes));
}

}  // namespace lockstep::kernels
