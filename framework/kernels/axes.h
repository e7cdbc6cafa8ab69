// The axes of an iteration space that several operands walk through together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

inline constexpr std::size_t max_operands = 4;

// One number for each operand: where it stands, or how far it is to its next element.
using Offsets = std::array<std::int64_t, max_operands>;

struct Axis {
  std::int64_t extent = 1;
  Offsets stride{};
};

// Strides of `operand` as seen by a loop over `shape`: 0 along an axis in which it is broadcast.
// Throws UsageError naming both shapes when it does not broadcast to `shape`.
Strides broadcast_strides(const Tensor& operand, const Shape& shape);

// Outermost first; at most Shape::max_rank.
class Axes {
 public:
  void add(const Axis& axis) { axes_[static_cast<std::size_t>(rank_++)] = axis; }

  // Largest weight(axis) outermost; equal ones keep their order.
  template <class Weight>
  void sort(Weight weight) {
    for (int i = 1; i < rank_; ++i) {  // std::stable_sort would take memory
      for (int j = i; j > 0 && weight(at(j - 1)) < weight(at(j)); --j) std::swap(at(j - 1), at(j));
    }
  }

  // Drops axes of extent 1 and makes one of neighbours that every operand walks through evenly.
  void merge();

  int rank() const { return rank_; }
  const Axis& operator[](int i) const { return axes_[static_cast<std::size_t>(i)]; }

  // Takes the innermost axis away; an axis of extent 1 if there is none.
  Axis pop() { return rank_ > 0 ? at(--rank_) : Axis{}; }
  // A copy of it.
  Axis innermost() const { return rank_ > 0 ? axes_[static_cast<std::size_t>(rank_ - 1)] : Axis{}; }

  std::int64_t count() const;  // product of the extents
  // Where the operands stand at a row-major index into the axes.
  Offsets offsets(std::int64_t index) const;

 private:
  Axis& at(int i) { return axes_[static_cast<std::size_t>(i)]; }

  std::array<Axis, Shape::max_rank> axes_;
  int rank_ = 0;
};

// The axes of an elementwise loop in the order of the memory of operand 0, the output; neighbours
// are merged, so that whole contiguous tensors become one axis, whatever their rank.
Axes loop_axes(std::span<const Tensor* const> operands);

// The axes of a sum of a * b (`b` may be nullptr) over `shape` into `out`, which is broadcast
// against it: those that `out` keeps, and those that are summed. Operands are out, a and b.
struct SumAxes {
  Axes kept, summed;
};
SumAxes sum_axes(const Tensor& out, const Tensor& a, const Tensor* b, const Shape& shape);

inline Offsets operator+(Offsets a, const Offsets& b) {
  for (std::size_t i = 0; i < max_operands; ++i) a[i] += b[i];
  return a;
}

// The distance of `steps` along an axis.
inline Offsets operator*(std::int64_t steps, const Axis& axis) {
  Offsets distance = axis.stride;
  for (std::int64_t& d : distance) d *= steps;
  return distance;
}

}  // namespace lockstep::kernels
