#include "framework/kernels/cuda/memory.h"

#include <bit>

#include "framework/kernels/convert.h"
#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/store_operands.h"

namespace lockstep::kernels::cuda {
namespace {

template <std::size_t bytes>
using BitsOf = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t,
                       std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

// Whether the copy turns rows into columns: then `matrices` says how.
bool is_transposed(Axes axes, TransposedMatrices& matrices) {
  const Axis inner = axes.pop(), next = axes.pop();
  if (inner.stride[0] != 1 || inner.stride[1] == 1 || next.stride[1] != 1) return false;
  matrices = {next.extent, inner.extent, next.stride[0], inner.stride[1], space_of(axes)};
  return matrices.rows > 1 && matrices.columns > 1;
}

}  // namespace

void CudaKernels::fill(double value, const Tensor& out) const {
  const MapLoop loop = plan_map(out);
  base::visit_dtype(out.dtype(), [&]<class T>(base::TypeTag<T>) {
    using Bits = BitsOf<sizeof(T)>;
    launch_fill<Bits>(stream_of(out), loop, std::bit_cast<Bits>(convert<T>(value)),
                      static_cast<Bits*>(out.data()));
  });
}

void CudaKernels::copy(const Tensor& x, const Tensor& out) const {
  const Tensor* const operands[] = {&out, &x};
  const Axes axes = loop_axes(operands);
  const device::CudaStream& stream = stream_of(out);
  if (out.count() == 0) return;
  if (x.dtype() != out.dtype()) {
    launch_convert(stream, plan_map(out, x), x.dtype(), x.data(), out.dtype(), out.data());
    return;
  }
  base::visit_dtype(out.dtype(), [&]<class T>(base::TypeTag<T>) {
    using Bits = BitsOf<sizeof(T)>;
    const auto* const from = static_cast<const Bits*>(x.data());
    auto* const to = static_cast<Bits*>(out.data());
    TransposedMatrices matrices;
    if (is_transposed(axes, matrices)) {
      launch_transposed_copy<Bits>(stream, matrices, from, to);
    } else {
      launch_copy<Bits>(stream, plan_map(out, x), from, to);
    }
  });
}

void CudaKernels::store(std::span<const std::byte> bytes, const Tensor& out) const {
  require_store(bytes, out);
  if (!bytes.empty()) launch_store(stream_of(out), bytes, out.data());
}

}  // namespace lockstep::kernels::cuda
