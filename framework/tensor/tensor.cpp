#include "framework/tensor/tensor.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace lockstep::tensor {
namespace {

using base::to_string;

std::size_t at(int axis) {
  return static_cast<std::size_t>(axis);
}  // an index of Strides

// The largest size where the product does not fit: no buffer has it and no allocator gives it.
std::size_t bytes_of(std::int64_t elements, DType dtype) {
  std::size_t bytes = 0;
  const bool overflow =
      __builtin_mul_overflow(static_cast<std::size_t>(elements), base::size_of(dtype), &bytes);
  return overflow ? std::numeric_limits<std::size_t>::max() : bytes;
}

}  // namespace

Tensor Tensor::empty(Context& context, const Shape& shape, DType dtype) {
  return on_buffer(context, Buffer(context.allocator(), bytes_of(shape.count(), dtype)), 0, shape,
                   dtype);
}

Tensor Tensor::on_buffer(Context& context, Buffer buffer, std::int64_t offset, const Shape& shape,
                         DType dtype) {
  if (offset < 0 || bytes_of(offset, dtype) > buffer.bytes() ||
      bytes_of(shape.count(), dtype) > buffer.bytes() - bytes_of(offset, dtype)) {
    throw UsageError(
        fmt::format("a {} tensor of shape {} at element {} does not fit a buffer of {} bytes",
                    base::name_of(dtype), to_string(shape), offset, buffer.bytes()));
  }
  Tensor tensor;
  tensor.buffer_ = std::move(buffer);
  tensor.context_ = &context;
  tensor.offset_ = offset;
  tensor.shape_ = shape;
  tensor.strides_ = base::contiguous_strides(shape);
  tensor.dtype_ = dtype;
  return tensor;
}

Tensor Tensor::from_host(Context& context, std::span<const std::byte> values, const Shape& shape,
                         DType dtype) {
  if (values.size() != bytes_of(shape.count(), dtype)) {
    throw UsageError(fmt::format("{} bytes given for a {} tensor of shape {}, expected {}",
                                 values.size(), base::name_of(dtype), to_string(shape),
                                 bytes_of(shape.count(), dtype)));
  }
  Tensor tensor = empty(context, shape, dtype);
  if (!values.empty()) context.upload(tensor.data(), values.data(), values.size());
  return tensor;
}

void Tensor::to_host(std::span<std::byte> values) const {
  require_defined();
  require_contiguous();
  if (values.size() != bytes()) {
    throw UsageError(fmt::format("{} bytes of room for a tensor of shape {}, expected {}",
                                 values.size(), to_string(shape_), bytes()));
  }
  if (!values.empty()) context_->download(values.data(), data(), values.size());
}

bool Tensor::is_contiguous() const {
  if (count() == 0) return true;
  std::int64_t expected = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    // The stride of an axis of one element is never used.
    if (shape_[axis] != 1 && strides_[at(axis)] != expected) return false;
    expected *= shape_[axis];
  }
  return true;
}

void* Tensor::data() const {
  return static_cast<std::byte*>(buffer_.data()) + bytes_of(offset_, dtype_);
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (shape.count() != count()) {
    throw UsageError(fmt::format("reshape: shape {} has {} elements, {} has {}", to_string(shape_),
                                 count(), to_string(shape), shape.count()));
  }
  if (!is_contiguous()) {
    throw UsageError(
        fmt::format("reshape to {}: the view of shape {} is not contiguous, copy it first",
                    to_string(shape), to_string(shape_)));
  }
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = base::contiguous_strides(shape);
  return view;
}

Tensor Tensor::transpose(int axis_a, int axis_b) const {
  const int a = shape_.normalized_axis(axis_a);
  const int b = shape_.normalized_axis(axis_b);
  Tensor view = *this;
  std::swap(view.shape_[a], view.shape_[b]);
  std::swap(view.strides_[at(a)], view.strides_[at(b)]);
  return view;
}

Tensor Tensor::slice(int axis, std::int64_t begin, std::int64_t end) const {
  const int cut = shape_.normalized_axis(axis);
  if (begin < 0 || begin > end || end > shape_[cut]) {
    throw UsageError(fmt::format("slice: [{}, {}) is not a range of axis {} of shape {}", begin,
                                 end, axis, to_string(shape_)));
  }
  Tensor view = *this;
  view.shape_[cut] = end - begin;
  view.offset_ += begin * strides_[at(cut)];
  return view;
}

Tensor Tensor::expand(const Shape& shape) const {
  const int lead = shape.rank() - rank();
  const auto fail = [&] {
    return UsageError(fmt::format("expand: shape {} cannot be broadcast to {}", to_string(shape_),
                                  to_string(shape)));
  };
  if (lead < 0) throw fail();
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = {};
  for (int axis = 0; axis < rank(); ++axis) {
    if (shape_[axis] == shape[lead + axis]) {
      view.strides_[at(lead + axis)] = strides_[at(axis)];
    } else if (shape_[axis] != 1) {
      throw fail();
    }
  }
  return view;
}

void Tensor::require_dtype(DType expected) const {
  if (dtype_ != expected) {
    throw UsageError(fmt::format("the tensor of shape {} holds {}, read as {}", to_string(shape_),
                                 base::name_of(dtype_), base::name_of(expected)));
  }
}

void Tensor::require_defined() const {
  if (!defined()) throw UsageError("the tensor is undefined");
}

void Tensor::require_host() const {
  require_defined();
  if (device().kind != DeviceKind::cpu) {
    throw UsageError(fmt::format("the tensor of shape {} is on {}, expected the CPU",
                                 to_string(shape_), to_string(device())));
  }
}

void Tensor::require_contiguous() const {
  if (!is_contiguous()) {
    throw UsageError(fmt::format("the view of shape {} is not contiguous", to_string(shape_)));
  }
}

void Tensor::require_host_contiguous() const {
  require_host();
  require_contiguous();
}

void Tensor::require_one_element() const {
  require_defined();
  if (count() != 1) {
    throw UsageError(
        fmt::format("item(): the tensor has shape {}, expected one element", to_string(shape_)));
  }
}

}  // namespace lockstep::tensor
