// Elementwise loops over operands of any strides.
//
// A Loop is the iteration space of an output and its inputs after the axes have been put in the
// order of the output's memory and neighbours that all operands walk through evenly have been
// merged: whole contiguous tensors become one row, whatever their rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

#include "framework/kernels/axes.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

class Loop {
 public:
  // Operand 0 is the output; every other one is broadcast to its shape.
  explicit Loop(std::span<const Tensor* const> operands);

  std::int64_t count() const { return rows_ * inner_.extent; }
  const Axis& inner() const { return inner_; }
  Axis next() const { return outer_.innermost(); }  // the one around it

  // Calls body(offsets, length) for stretches of the innermost axis, in parallel; `offsets` say
  // where the operands stand, in elements from their first.
  template <class Body>
  void for_each_row(Context& context, Body&& body) const {
    if (count() == 0) return;
    const std::int64_t length = std::min(inner_.extent, elements_per_block);
    const std::int64_t pieces = ceil_div(inner_.extent, length);
    for_row_blocks(context, rows_ * pieces, length, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t first = task % pieces * length;
        body(outer_.offsets(task / pieces) + first * inner_,
             std::min(length, inner_.extent - first));
      }
    });
  }

  // Calls body(offsets, rows, length) for stretches of at most `rows` by `length` of the two
  // innermost axes, in parallel.
  template <class Body>
  void for_each_tile(Context& context, std::int64_t rows, std::int64_t length, Body&& body) const {
    if (count() == 0) return;
    const std::int64_t height = next().extent;
    const std::int64_t down = ceil_div(height, rows), across = ceil_div(inner_.extent, length);
    for_row_blocks(context, rows_ / height * down * across, rows * length,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t tile = begin; tile < end; ++tile) {
                       const std::int64_t column = tile % across * length;
                       const std::int64_t row = tile / across % down * rows;
                       body(outer_.offsets(tile / across / down * height + row) + column * inner_,
                            std::min(rows, height - row), std::min(length, inner_.extent - column));
                     }
                   });
  }

 private:
  Axes outer_;
  Axis inner_;
  std::int64_t rows_ = 1;
};

// out[i] = f(inputs[i]...) for one stretch. Contiguous stretches and, of two inputs, a constant one
// have loops of their own, which vectorise.
template <class Out, class F, class... In>
void transform_row(std::int64_t n, const Offsets& strides, F f, Out* out, const In*... in) {
  if (std::all_of(strides.begin(), strides.begin() + sizeof...(In) + 1,
                  [](std::int64_t stride) { return stride == 1; })) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(in[i]...);
    return;
  }
  if constexpr (sizeof...(In) == 2) {
    const auto [left, right] = std::tuple(in...);
    if (strides[0] == 1 && strides[1] == 1 && strides[2] == 0) {
      return transform_row(
          n, {1, 1}, [f, y = *right](auto x) { return f(x, y); }, out, left);
    }
    if (strides[0] == 1 && strides[1] == 0 && strides[2] == 1) {
      return transform_row(
          n, {1, 1}, [f, x = *left](auto y) { return f(x, y); }, out, right);
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    out[i * strides[0]] = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return f(in[i * strides[I + 1]]...);
    }
    (std::index_sequence_for<In...>{});
  }
}

// out = f(inputs...), elementwise, for operands of any strides; inputs may be `out` itself.
template <class Out, class In, class F, class... Tensors>
void transform(const Tensor& out, F f, const Tensors&... inputs) {
  const Tensor* const operands[] = {&out, &inputs...};
  const Loop loop(operands);
  Out* const to = out.template data<Out>();
  const std::array<const In*, sizeof...(inputs)> from{inputs.template data<In>()...};
  loop.for_each_row(out.context(), [&](const auto& at, std::int64_t n) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      transform_row(n, loop.inner().stride, f, to + at[0], (from[I] + at[I + 1])...);
    }
    (std::index_sequence_for<Tensors...>{});
  });
}

}  // namespace lockstep::kernels
