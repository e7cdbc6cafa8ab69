// Positions sorted by the row that each names, stable: a radix sort of eight bits a pass. Blocks
// count the digits of their chunk, one block says where each block's elements of each digit begin,
// and blocks place their chunk in order. So a place follows from the indices alone.
#include "framework/kernels/cuda/group_positions.h"

#include "framework/base/division.h"
#include "framework/kernels/cuda/note.cuh"
#include "framework/kernels/cuda/scan.cuh"
#include "framework/kernels/cuda/team.cuh"

namespace lockstep::kernels::cuda {
namespace {

constexpr int bits_of_a_digit = 8;
constexpr int digits = 1 << bits_of_a_digit;
static_assert(digits == block_threads, "a thread for each digit");
constexpr std::int64_t positions_of_a_block = 2048;

// What one pass sorts by.
struct Digits {
  const std::int64_t* indices;
  std::int64_t rows;
  int shift;

  __device__ bool is_row(std::int64_t index) const { return index >= 0 && index < rows; }
  // Indices that are no rows are noted elsewhere, and stand with row 0.
  __device__ std::int64_t row(std::int64_t position) const {
    return is_row(indices[position]) ? indices[position] : 0;
  }
  __device__ int operator()(std::int64_t position) const {
    return static_cast<int>(row(position) >> shift) & (digits - 1);
  }
};

// The positions in the order so far; nullptr: as they are.
struct Order {
  const std::int64_t* order;
  __device__ std::int64_t operator[](std::int64_t i) const {
    return order == nullptr ? i : order[i];
  }
};

// Positions of a block's chunk.
struct PositionChunk {
  std::int64_t begin, end;
  __device__ explicit PositionChunk(std::int64_t count)
      : begin(std::int64_t{blockIdx.x} * positions_of_a_block), end(begin + positions_of_a_block) {
    if (end > count) end = count;
  }
};

__global__ void count_digits(std::int64_t count, Digits digit_of, Order order, std::int64_t* counts,
                             unsigned long long* first_bad) {
  LOCKSTEP_SHARED(histogram, unsigned[digits]);
  histogram[threadIdx.x] = 0;
  __syncthreads();
  const PositionChunk chunk(count);
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
    const std::int64_t position = order[i];
    if (!digit_of.is_row(digit_of.indices[position])) {
      atomicMin(first_bad, static_cast<unsigned long long>(position));
    }
    atomicAdd(&histogram[digit_of(position)], 1u);
  }
  __syncthreads();
  counts[std::int64_t{threadIdx.x} * gridDim.x + blockIdx.x] = histogram[threadIdx.x];
}

// From how many elements of a digit each block has, digit by digit, to where they begin. One block.
__global__ void find_places(std::int64_t blocks, std::int64_t* counts) {
  std::int64_t* const of_digit = counts + std::int64_t{threadIdx.x} * blocks;
  std::int64_t total = 0;
  for (std::int64_t block = 0; block < blocks; ++block) total += of_digit[block];
  std::int64_t place = sum_up_to_thread(total) - total;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t here = of_digit[block];
    of_digit[block] = place;
    place += here;
  }
}

// The lanes of this warp that have the same digit; all lanes call this, those without an element
// with `valid` false.
__device__ unsigned lanes_alike(int digit, bool valid) {
  unsigned alike = __ballot_sync(device::full_warp, valid);
#pragma unroll
  for (int bit = 0; bit < bits_of_a_digit; ++bit) {
    const bool is_set = (digit >> bit & 1) != 0;
    const unsigned set = __ballot_sync(device::full_warp, is_set);
    alike &= is_set ? set : ~set;
  }
  return alike;
}

__global__ void place_chunk(std::int64_t count, Digits digit_of, Order order,
                            const std::int64_t* places, std::int64_t* sorted) {
  LOCKSTEP_SHARED(begins, std::int64_t[warps_of_a_block][digits]);  // of a warp's elements
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / device::warp_size, lane = thread % device::warp_size;
  std::int64_t next = places[std::int64_t{threadIdx.x} * gridDim.x + blockIdx.x];  // of one digit
  const PositionChunk chunk(count);
  for (std::int64_t first = chunk.begin; first < chunk.end; first += blockDim.x) {
    for (int w = 0; w < warps_of_a_block; ++w) begins[w][thread] = 0;
    __syncthreads();
    const bool valid = first + thread < chunk.end;
    const std::int64_t position = valid ? order[first + thread] : 0;
    const int digit = valid ? digit_of(position) : 0;
    const unsigned alike = lanes_alike(digit, valid);
    const int rank = __popc(alike & ((1u << lane) - 1));
    if (valid && rank == 0) begins[warp][digit] = __popc(alike);
    __syncthreads();
    for (int w = 0; w < warps_of_a_block; ++w) {
      const std::int64_t here = begins[w][thread];
      begins[w][thread] = next;
      next += here;
    }
    __syncthreads();
    if (valid) sorted[begins[warp][digit] + rank] = position;
    __syncthreads();
  }
}

// starts[row] = how many positions name a row before it.
__global__ void find_starts(std::int64_t count, Digits digit_of, const std::int64_t* order,
                            std::int64_t* starts) {
  for (std::int64_t row = grid_thread(); row <= digit_of.rows; row += grid_stride()) {
    std::int64_t low = 0, high = count;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (digit_of.row(order[middle]) < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    starts[row] = low;
  }
}

}  // namespace

int passes_of_sort(std::int64_t rows) {
  int passes = 1;
  while (passes * bits_of_a_digit < 63 && (rows - 1) >> passes * bits_of_a_digit > 0) ++passes;
  return passes;
}

std::int64_t counts_of_sort(std::int64_t positions) {
  return digits * base::ceil_div(positions, positions_of_a_block);
}

void launch_group_positions(const device::CudaStream& stream, const PositionsByRow& groups,
                            std::int64_t* counts, std::int64_t* scratch,
                            unsigned long long* first_bad) {
  const std::int64_t blocks = counts_of_sort(groups.positions) / digits;
  const int passes = passes_of_sort(groups.rows);
  const std::int64_t* from = nullptr;
  for (int pass = 0; pass < passes && blocks > 0; ++pass) {
    // The last pass writes groups.order.
    std::int64_t* const to = (passes - pass) % 2 == 1 ? groups.order : scratch;
    const Digits digit_of{groups.indices, groups.rows, pass * bits_of_a_digit};
    const device::LaunchShape shape{static_cast<unsigned>(blocks), block_threads};
    device::launch(stream, shape, count_digits, groups.positions, digit_of, Order{from}, counts,
                   first_bad);
    device::launch(stream, {1, block_threads}, find_places, blocks, counts);
    device::launch(stream, shape, place_chunk, groups.positions, digit_of, Order{from},
                   static_cast<const std::int64_t*>(counts), to);
    from = to;
  }
  device::launch(stream, {blocks_for(groups.rows + 1), block_threads}, find_starts,
                 groups.positions, Digits{groups.indices, groups.rows, 0}, groups.order,
                 groups.starts);
}

}  // namespace lockstep::kernels::cuda
