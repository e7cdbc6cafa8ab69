// Shape: the extents of a tensor, at most eight, kept inline.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace lockstep::base {

class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;  // rank 0: a scalar
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);  // throws UsageError: negative, rank > 8

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t back() const { return (*this)[rank_ - 1]; }
  std::int64_t count() const;  // product of the extents; 1 for a scalar
  std::span<const std::int64_t> extents() const {
    return {extents_.data(), static_cast<std::size_t>(rank_)};
  }
  bool operator==(const Shape& other) const;

  // -1 counts from the end; throws UsageError when out of range.
  int normalized_axis(int axis) const;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

// Distances in elements between neighbours along each axis.
using Strides = std::array<std::int64_t, Shape::max_rank>;

Strides contiguous_strides(const Shape& shape);  // row-major

// NumPy's rule: aligned at the last axis, extents equal or 1. Throws UsageError naming both shapes.
Shape broadcast(const Shape& a, const Shape& b);

std::string to_string(const Shape& shape);  // "[32, 784]"

}  // namespace lockstep::base

namespace lockstep {
using base::Shape;
using base::Strides;
}  // namespace lockstep
