#include <cstdint>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/normalize_operands.h"

namespace lockstep::kernels {

void CpuKernels::normalize_channels(const Tensor& x, const Tensor& factor, const Tensor& offset,
                                    const Tensor& out) const {
  require_normalize_channels(x, factor, offset, out);
  const std::int64_t channels = out.shape()[1], width = out.shape()[2];
  visit_stored(x.dtype(), [&]<class Stored>(base::TypeTag<Stored>) {
    visit_float("normalize_channels", out.dtype(), [&]<class T>(base::TypeTag<T>) {
      const Stored* const from = x.data<Stored>();
      T* const to = out.data<T>();
      const auto one_channel = [&](std::int64_t row) {
        const T times = factor.data<T>()[row % channels], plus = offset.data<T>()[row % channels];
        for (std::int64_t i = row * width; i < (row + 1) * width; ++i)
          to[i] = static_cast<T>(from[i]) * times + plus;
      };
      for_row_blocks(out.context(), out.shape()[0] * channels, width,
                     [&](std::int64_t first, std::int64_t last) {
                       for (std::int64_t row = first; row < last; ++row) one_channel(row);
                     });
    });
  });
}

}  // namespace lockstep::kernels
