#include <cstring>

#include "framework/kernels/convert.h"
#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/loop.h"
#include "framework/kernels/store_operands.h"

namespace lockstep::kernels {
namespace {

// Copies when neighbours of the output are apart in the input and the other way round. Squares of a
// few cache lines are read whole before they are written, so that no line is fetched twice even
// where distances are powers of two.
template <class T>
bool copy_transposed(const Tensor& x, const Tensor& out) {
  constexpr std::int64_t side = 16;
  const Tensor* const operands[] = {&out, &x};
  const Loop loop(operands);
  const Axis inner = loop.inner(), next = loop.next();
  if (inner.stride[0] != 1 || inner.stride[1] == 1 || next.stride[1] != 1) return false;
  const std::int64_t out_stride = next.stride[0], x_stride = inner.stride[1];
  const T* const from = x.data<T>();
  T* const to = out.data<T>();
  loop.for_each_tile(out.context(), side, side,
                     [=](const auto& at, std::int64_t rows, std::int64_t columns) {
                       T square[side][side];
                       for (std::int64_t j = 0; j < columns; ++j) {
                         for (std::int64_t i = 0; i < rows; ++i)
                           square[j][i] = from[at[1] + j * x_stride + i];
                       }
                       for (std::int64_t i = 0; i < rows; ++i) {
                         for (std::int64_t j = 0; j < columns; ++j)
                           to[at[0] + i * out_stride + j] = square[j][i];
                       }
                     });
  return true;
}

}  // namespace

void CpuKernels::fill(double value, const Tensor& out) const {
  base::visit_dtype(out.dtype(), [&]<class T>(base::TypeTag<T>) {
    transform<T, T>(out, [v = convert<T>(value)]() { return v; });
  });
}

void CpuKernels::copy(const Tensor& x, const Tensor& out) const {
  base::visit_dtype(out.dtype(), [&]<class To>(base::TypeTag<To>) {
    if (x.dtype() == out.dtype() && copy_transposed<To>(x, out)) return;
    base::visit_dtype(x.dtype(), [&]<class From>(base::TypeTag<From>) {
      transform<To, From>(
          out, [](From value) { return convert<To>(value); }, x);
    });
  });
}

void CpuKernels::store(std::span<const std::byte> bytes, const Tensor& out) const {
  require_store(bytes, out);
  std::memcpy(out.data(), bytes.data(), bytes.size());
}

}  // namespace lockstep::kernels
