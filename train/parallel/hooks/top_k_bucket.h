// A bucket that top_k reduces and what a rank sends of it, in memory of either kind of device.
// Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::train {

// One bucket on its way. T is the type of its gradients.
template <class T>
struct TopKBucket {
  T* gradients;
  std::int64_t count;
  std::int64_t k;
  const T* before;  // the residual
  T factor;         // by which it is multiplied
  T* rest;          // the next residual; may be `before`
};

// What one rank sends of a bucket: k indices, ascending, then k values.
template <class T>
struct TopKMessage {
  std::int32_t* indices;
  T* values;

  static std::size_t bytes(std::int64_t k) {
    return static_cast<std::size_t>(k) * (sizeof(std::int32_t) + sizeof(T));
  }
  // That of `rank` among those of all ranks.
  TopKMessage(void* all, int rank, std::int64_t k) {
    std::byte* const mine =
        static_cast<std::byte*>(all) + static_cast<std::size_t>(rank) * bytes(k);
    indices = reinterpret_cast<std::int32_t*>(mine);
    values = reinterpret_cast<T*>(mine + static_cast<std::size_t>(k) * sizeof(std::int32_t));
  }
};

}  // namespace lockstep::train
