// Buffer: a shared, untyped block of device memory. Copies of a Buffer share the block; the last
// one gives it back to its allocator, which must outlive it. The counter is thread-safe, the bytes
// are not.
#pragma once

#include <cstddef>
#include <memory>

#include "framework/device/allocator.h"

namespace lockstep::device {

class Buffer {
 public:
  Buffer() = default;
  Buffer(Allocator& allocator, std::size_t bytes);
  // Memory owned by something else (a communicator's addressable memory); `owner` is kept alive.
  Buffer(void* data, std::size_t bytes, std::shared_ptr<void> owner);

  void* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }
  long use_count() const { return data_.use_count(); }

 private:
  std::shared_ptr<void> data_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::device

namespace lockstep {
using device::Buffer;
}
