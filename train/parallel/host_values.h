// Values of the host that take part in collectives: in memory that the context's device, and with
// it the communicator, can read and write (page-locked where it is a GPU).
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "comm/communicator.h"
#include "framework/device/buffer.h"
#include "framework/device/context.h"

namespace lockstep::train {

// All zero at first. Must not be destroyed while a collective on it is on its way.
template <class T>
class HostValues {
 public:
  HostValues(Context& context, std::size_t count)
      : buffer_(context.host_memory(), count * sizeof(T)), count_(count) {
    std::fill_n(data(), count_, T{});
  }

  T& operator[](std::size_t i) { return data()[i]; }
  std::span<T> values() const { return {data(), count_}; }
  comm::Range range() const { return comm::range_of(values()); }

 private:
  T* data() const { return static_cast<T*>(buffer_.data()); }

  Buffer buffer_;
  std::size_t count_;
};

}  // namespace lockstep::train
