// Memory for rows: their features, then their labels. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::data {

inline constexpr std::size_t row_memory_alignment = 64;

class RowMemory {
 public:
  // What `rows` rows take, a multiple of the alignment.
  static std::size_t bytes(std::int64_t rows, std::size_t row_bytes) {
    const auto count = static_cast<std::size_t>(rows);
    return aligned(count * row_bytes) + aligned(count * sizeof(std::int64_t));
  }

  RowMemory() = default;
  RowMemory(std::span<std::byte> memory, std::int64_t rows, std::size_t row_bytes)
      : row_bytes_(row_bytes),
        features_(memory.first(static_cast<std::size_t>(rows) * row_bytes)),
        labels_(reinterpret_cast<std::int64_t*>(memory.data() + aligned(features_.size())),
                static_cast<std::size_t>(rows)) {}

  std::span<std::byte> features(std::int64_t first, std::int64_t rows) const {
    return features_.subspan(static_cast<std::size_t>(first) * row_bytes_,
                             static_cast<std::size_t>(rows) * row_bytes_);
  }
  std::span<std::int64_t> labels(std::int64_t first, std::int64_t rows) const {
    return labels_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
  }
  const std::byte* features() const { return features_.data(); }
  const std::int64_t* labels() const { return labels_.data(); }

 private:
  static std::size_t aligned(std::size_t bytes) {
    return (bytes + row_memory_alignment - 1) / row_memory_alignment * row_memory_alignment;
  }

  std::size_t row_bytes_ = 0;
  std::span<std::byte> features_;
  std::span<std::int64_t> labels_;
};

}  // namespace lockstep::data
