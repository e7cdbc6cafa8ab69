// The values of a tensor as the host sees them: where they lie, or a copy of a GPU's.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "framework/tensor/tensor.h"

namespace lockstep::train {

// Of a contiguous tensor, which must outlive it. From a GPU it waits for the compute stream.
class HostView {
 public:
  explicit HostView(const Tensor& tensor) {
    if (tensor.device().kind == DeviceKind::cpu) {
      bytes_ = {static_cast<const std::byte*>(tensor.data()), tensor.bytes()};
    } else {
      copy_.resize(tensor.bytes());
      tensor.to_host(copy_);
      bytes_ = copy_;
    }
  }
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  template <class T>
  std::span<const T> values() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  std::vector<std::byte> copy_;
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep::train
