// Tensor: an element type and a strided view on a Buffer. A value type: copies share the memory.
//
// Views (reshape, transpose, slice, expand) share it too and cost no copy. Strides are in elements
// and may be 0 (an expanded axis). A Tensor is used by the thread of its Context.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/base/error.h"
#include "framework/base/shape.h"
#include "framework/device/buffer.h"
#include "framework/device/context.h"

namespace lockstep::tensor {

class Tensor {
 public:
  Tensor() = default;  // undefined: no memory, no context

  // Contiguous, elements not initialised.
  static Tensor empty(Context& context, const Shape& shape, DType dtype = DType::float32);
  // On memory that exists; `offset` in elements, contiguous from there. Throws UsageError if too
  // small.
  static Tensor on_buffer(Context& context, Buffer buffer, std::int64_t offset, const Shape& shape,
                          DType dtype);
  template <class T>
  static Tensor from(Context& context, std::span<const T> values, const Shape& shape) {
    return from_host(context, std::as_bytes(values), shape, base::dtype_of<T>());
  }
  template <class T>
  static Tensor from(Context& context, std::initializer_list<T> values, const Shape& shape) {
    return from(context, std::span<const T>(values.begin(), values.size()), shape);
  }
  static Tensor from_host(Context& context, std::span<const std::byte> values, const Shape& shape,
                          DType dtype);

  bool defined() const { return context_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  DType dtype() const { return dtype_; }
  int rank() const { return shape_.rank(); }
  std::int64_t count() const { return shape_.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * base::size_of(dtype_); }
  Context& context() const { return *context_; }
  Device device() const { return context_->device(); }
  const Buffer& buffer() const { return buffer_; }
  std::int64_t offset() const { return offset_; }
  bool is_contiguous() const;
  // Whether both are views on one buffer.
  bool shares_memory_with(const Tensor& other) const {
    return buffer_.data() != nullptr && buffer_.data() == other.buffer_.data();
  }

  // Address of the first element, on the device. Const is the handle, not the memory.
  void* data() const;
  template <class T>
  T* data() const {
    require_dtype(base::dtype_of<T>());
    return static_cast<T*>(data());
  }
  // All elements of a contiguous CPU tensor; throws UsageError otherwise.
  template <class T>
  std::span<T> elements() const {
    require_host_contiguous();
    return {data<T>(), static_cast<std::size_t>(count())};
  }
  // A copy on the host of all elements of a contiguous tensor, wherever it is. From a GPU it waits
  // for the work on the compute stream.
  template <class T>
  std::vector<T> to_vector() const {
    require_dtype(base::dtype_of<T>());
    std::vector<T> values(static_cast<std::size_t>(count()));
    to_host(std::as_writable_bytes(std::span(values)));
    return values;
  }
  // The same into memory of the caller: `values` has bytes() bytes.
  void to_host(std::span<std::byte> values) const;
  // The only element of a tensor of one element; waits as to_vector() does.
  template <class T>
  T item() const {
    require_one_element();
    require_dtype(base::dtype_of<T>());
    T value;
    to_host(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  // Views. Each throws UsageError naming the shapes when the view does not exist.
  Tensor reshape(const Shape& shape) const;  // contiguous tensors only
  Tensor transpose(int axis_a, int axis_b) const;
  Tensor slice(int axis, std::int64_t begin, std::int64_t end) const;
  Tensor expand(const Shape& shape) const;  // by NumPy's broadcasting rule
  // The same memory as one axis; contiguous tensors only.
  Tensor flatten() const { return reshape(Shape{count()}); }

 private:
  void require_dtype(DType expected) const;
  void require_defined() const;
  void require_host() const;
  void require_contiguous() const;
  void require_host_contiguous() const;
  void require_one_element() const;

  Buffer buffer_;
  Context* context_ = nullptr;
  std::int64_t offset_ = 0;
  Shape shape_;
  Strides strides_{};
  DType dtype_ = DType::float32;
};

}  // namespace lockstep::tensor

namespace lockstep {
using tensor::Tensor;
}
