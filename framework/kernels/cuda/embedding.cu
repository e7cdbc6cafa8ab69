#include "framework/kernels/cuda/embedding.h"

#include "framework/kernels/cuda/note.cuh"
#include "framework/kernels/cuda/rows.cuh"

namespace lockstep::kernels::cuda {
namespace {

template <class T>
struct GatherRows {
  Rows rows;
  std::int64_t table_rows;
  const T* table;
  const std::int64_t* indices;
  T* out;
  unsigned long long* first_bad;

  template <int warps>
  __device__ void operator()(const Team<warps>& team, std::int64_t position) const {
    const std::int64_t index = indices[position];
    if (index < 0 || index >= table_rows) {
      if (team.lane() == 0) atomicMin(first_bad, static_cast<unsigned long long>(position));
      return;
    }
    team.transform(
        rows.length, rows.aligned, out + position * rows.length,
        [](std::int64_t, T x) { return x; }, table + index * rows.length);
  }
};

// Each element is one thread's chain of additions in the order of the group, as on the CPU.
template <class T>
struct SumRowGroups {
  Rows rows;
  const T* x;
  const std::int64_t* starts;
  const std::int64_t* order;
  T* out;
  bool accumulate;

  template <int warps>
  __device__ void operator()(const Team<warps>& team, std::int64_t row) const {
    const std::int64_t begin = starts[row], end = starts[row + 1];
    T* const sums = out + row * rows.length;
    const auto sum = [&](std::int64_t i, T start) {
      for (std::int64_t k = begin; k < end; ++k) start += x[order[k] * rows.length + i];
      return start;
    };
    if (accumulate) {
      team.transform(rows.length, rows.aligned, sums, sum, static_cast<const T*>(sums));
    } else {
      team.transform(rows.length, rows.aligned, sums, [&](std::int64_t i) { return sum(i, T(0)); });
    }
  }
};

__global__ void note_bad_index(std::int64_t rows, const std::int64_t* indices,
                               unsigned long long* first_bad, NotedError* noted) {
  if (*first_bad == no_position) return;
  const auto position = static_cast<std::int64_t>(*first_bad);
  note(noted, {NotedError::index, position, indices[position], rows, 0});
  *first_bad = no_position;
}

}  // namespace

void launch_note_bad_index(const device::CudaStream& stream, std::int64_t rows,
                           const std::int64_t* indices, unsigned long long* first_bad,
                           NotedError* noted) {
  device::launch(stream, {1, 1}, note_bad_index, rows, indices, first_bad, noted);
}

template <class T>
void launch_gather_rows(const device::CudaStream& stream, std::int64_t positions,
                        std::int64_t table_rows, std::int64_t width, const T* table,
                        const std::int64_t* indices, T* out, unsigned long long* first_bad) {
  const Rows rows = rows_of(positions, width, table, static_cast<const T*>(out));
  launch_rows(stream, rows, GatherRows<T>{rows, table_rows, table, indices, out, first_bad});
}

template <class T>
void launch_sum_row_groups(const device::CudaStream& stream, std::int64_t row_count,
                           std::int64_t width, const T* x, const std::int64_t* starts,
                           const std::int64_t* order, T* out, bool accumulate) {
  const Rows rows = rows_of(row_count, width, static_cast<const T*>(out));
  launch_rows(stream, rows, SumRowGroups<T>{rows, x, starts, order, out, accumulate});
}

#define LOCKSTEP_EMBEDDING(T)                                                                 \
  template void launch_gather_rows(const device::CudaStream&, std::int64_t, std::int64_t,     \
                                   std::int64_t, const T*, const std::int64_t*, T*,           \
                                   unsigned long long*);                                      \
  template void launch_sum_row_groups(const device::CudaStream&, std::int64_t, std::int64_t,  \
                                      const T*, const std::int64_t*, const std::int64_t*, T*, \
                                      bool);
LOCKSTEP_EMBEDDING(float)
LOCKSTEP_EMBEDDING(double)
#undef LOCKSTEP_EMBEDDING

}  // namespace lockstep::kernels::cuda
