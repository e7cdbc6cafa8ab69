// Launchers of sums in a fixed order. T is float or double; terms are added in double.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/operands.h"

namespace lockstep::kernels::cuda {

// How a sum is cut, by shapes alone. Operands are out, a and b. An output belongs to a warp that
// goes along the summed axes or, where outputs lie closer to each other than the terms of one, to a
// thread of a block that goes down beside its neighbours. Long sums are cut into parts that
// `finish` adds.
struct SumPlan {
  bool columns = false;
  bool summed_flat = false;  // rows: the terms of an output are neighbours in a and b
  Space outputs;             // columns: without the innermost axis, which is `across`
  std::int64_t across = 1;
  std::int64_t across_stride[most_operands] = {};
  Space summed;
  std::int64_t part_length = 1;  // terms
  std::int64_t parts = 1;

  std::int64_t output_count() const { return outputs.count * across; }
};

// out (+)= alpha * sum of a * b, or of a where b is nullptr. `parts` has room for
// plan.parts * plan.output_count() doubles, and may be nullptr where there is one part.
template <class T>
void launch_sum(const device::CudaStream& stream, const SumPlan& plan, double alpha, const T* a,
                const T* b, T* out, bool accumulate, double* parts);

inline constexpr std::int64_t terms_of_a_part = 4096;
inline constexpr std::int64_t rows_of_a_part = 512;

// Sum of squares of x[0..count) into *out. `parts` has room for one double for each
// terms_of_a_part.
template <class T>
void launch_sum_of_squares(const device::CudaStream& stream, std::int64_t count, const T* x,
                           double* parts, double* out);

// *out (+)= the sum of parts[0..count), by one block.
void launch_add_all(const device::CudaStream& stream, std::int64_t count, const double* parts,
                    double* out, bool accumulate);

// Makes *flag 1 if a value of x[0..count) is infinite or NaN.
template <class T>
void launch_find_nonfinite(const device::CudaStream& stream, std::int64_t count, const T* x,
                           std::int32_t* flag);

// Kernels::clip_factor on `count` sums of squares.
void launch_clip_factor(const device::CudaStream& stream, std::int64_t count, const double* squares,
                        const double* scale, double limit, double* factor, std::int32_t* flag);

}  // namespace lockstep::kernels::cuda
