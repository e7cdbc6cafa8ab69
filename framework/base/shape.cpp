#include "framework/base/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

std::string format_extents(std::span<const std::int64_t> extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

bool count_overflows(std::span<const std::int64_t> extents) {
  if (std::ranges::find(extents, 0) != extents.end()) return false;
  std::int64_t count = 1;
  return std::ranges::any_of(
      extents, [&](std::int64_t extent) { return __builtin_mul_overflow(count, extent, &count); });
}

}  // namespace

Shape::Shape(std::span<const std::int64_t> extents) {
  if (extents.size() > std::size_t{max_rank}) {
    throw UsageError(fmt::format("shape {} has {} axes, expected at most {}",
                                 format_extents(extents), extents.size(), max_rank));
  }
  if (std::ranges::any_of(extents, [](std::int64_t extent) { return extent < 0; })) {
    throw UsageError(fmt::format("shape {} has a negative extent", format_extents(extents)));
  }
  if (count_overflows(extents)) {
    throw UsageError(
        fmt::format("shape {} has more than 2^63 - 1 elements", format_extents(extents)));
  }
  std::ranges::copy(extents, extents_.begin());
  rank_ = static_cast<int>(extents.size());
}

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span(extents.begin(), extents.size())) {}

std::int64_t Shape::count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents()) count *= extent;
  return count;
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(extents(), other.extents());
}

int Shape::normalized_axis(int axis) const {
  if (axis < -rank_ || axis >= rank_) {
    throw UsageError(fmt::format("axis {} is out of range for shape {} of {} axes", axis,
                                 to_string(*this), rank_));
  }
  return axis < 0 ? axis + rank_ : axis;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides{};
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape result = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int lead = result.rank() - shorter.rank();
  for (int axis = 0; axis < shorter.rank(); ++axis) {
    std::int64_t& extent = result[lead + axis];
    if (extent == 1) {
      extent = shorter[axis];
    } else if (shorter[axis] != 1 && shorter[axis] != extent) {
      throw UsageError(
          fmt::format("shapes {} and {} cannot be broadcast together", to_string(a), to_string(b)));
    }
  }
  return result;
}

std::string to_string(const Shape& shape) {
  return format_extents(shape.extents());
}

}  // namespace lockstep::base
