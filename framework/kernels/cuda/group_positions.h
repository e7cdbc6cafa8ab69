// The launcher of Kernels::group_positions.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::kernels::cuda {

struct PositionsByRow {
  std::int64_t positions = 0, rows = 0;
  const std::int64_t* indices = nullptr;
  std::int64_t* starts = nullptr;  // rows + 1
  std::int64_t* order = nullptr;
};
int passes_of_sort(std::int64_t rows);
std::int64_t counts_of_sort(std::int64_t positions);
// `counts` has room for counts_of_sort(positions); `scratch` for as many as `order`, and may be
// nullptr where there is one pass. *first_bad becomes at most the first position whose index
// is no row.
void launch_group_positions(const device::CudaStream& stream, const PositionsByRow& groups,
                            std::int64_t* counts, std::int64_t* scratch,
                            unsigned long long* first_bad);

}  // namespace lockstep::kernels::cuda
