// A radix search for the k-th largest magnitude, as selection.h has it for the CPU, and a
// compaction in order: warps count what they have to take of their chunk, one block says where each
// chunk's part of the message begins, and the warps take it.
#include "train/parallel/hooks/cuda/top_k_kernels.h"

#include <limits>

#include "framework/base/division.h"
#include "framework/kernels/cuda/parts.cuh"
#include "framework/kernels/cuda/scan.cuh"
#include "train/parallel/hooks/selection.h"

namespace lockstep::train {
namespace {

using kernels::cuda::block_threads;
using kernels::cuda::Chunk;
using kernels::cuda::grid_stride;
using kernels::cuda::grid_thread;
using kernels::cuda::row_chunk;
using kernels::cuda::Team;

constexpr unsigned all_digits = 1 << 11;
constexpr int passes = 3;
constexpr std::int64_t elements_of_a_chunk = 1024;  // for a warp: many chunks hide their latency

// Of elements above the threshold and of those equal to it, side by side, so that one sum adds
// both.
struct Counts {
  unsigned long long both = 0;
  __device__ std::int64_t above() const { return static_cast<std::int64_t>(both >> 32); }
  __device__ std::int64_t equal() const { return static_cast<std::int64_t>(both & 0xFFFFFFFFu); }
};
constexpr unsigned long long one_above = 1ull << 32, one_equal = 1;

// What the kernels of a selection leave each other; zero at first. The counts of chunks follow.
struct Search {
  unsigned counts[passes][all_digits];  // of digit 0 none
  unsigned bits;                        // the digits of the threshold that are found
  unsigned nonfinite;                   // whether an element is
  long long ties;                       // as SelectionThreshold has it
};

// The digit that a pass looks for.
struct Digit {
  int pass, shift, width;

  // Whether an element has the digits before this one that the threshold has.
  __device__ bool is_candidate(unsigned bits, unsigned found) const {
    return bits >> (shift + width) == found >> (shift + width);
  }
  __device__ unsigned of(unsigned bits) const { return bits >> shift & ((1u << width) - 1); }
};
constexpr Digit digits[passes] = {{0, 20, 11}, {1, 10, 10}, {2, 0, 10}};

// Adds to counts how many elements have each digit. `visit` calls a function with the bits of each
// element of this thread. Elements with digit 0 are left out: they are what is left over, and often
// (of a gradient that is mostly zero) so many that counting them one by one would take long.
template <class Visit>
__device__ void count_digits(const Digit& digit, Search& search, Visit visit) {
  LOCKSTEP_SHARED(histogram, unsigned[all_digits]);
  for (unsigned d = threadIdx.x; d < all_digits; d += blockDim.x) histogram[d] = 0;
  __syncthreads();
  const unsigned found = search.bits;
  visit([&](unsigned bits) {
    const unsigned value = digit.of(bits);
    if (value != 0 && digit.is_candidate(bits, found)) atomicAdd(&histogram[value], 1u);
  });
  __syncthreads();
  for (unsigned d = threadIdx.x; d < all_digits; d += blockDim.x) {
    if (histogram[d] != 0) atomicAdd(&search.counts[digit.pass][d], histogram[d]);
  }
}

template <class T>
__global__ void add_residual_and_count(TopKBucket<T> bucket, bool aligned, Digit digit,
                                       Search* search) {
  count_digits(digit, *search, [&](auto count) {
    kernels::cuda::for_parts(
        bucket.count, bucket.gradients,
        [&](const auto& team, std::int64_t part, std::int64_t length, const T* gradients) {
          const std::int64_t begin = part * kernels::cuda::terms_of_a_part;
          team.transform(
              length, aligned, bucket.rest + begin,
              [&](std::int64_t, T gradient, T before) {
                const T sum = gradient + bucket.factor * before;
                count(magnitude_bits(sum));
                return sum;
              },
              gradients, bucket.before + begin);
        });
  });
}

template <class T>
__global__ void count_candidates(std::int64_t length, bool aligned, const T* values, Digit digit,
                                 Search* search) {
  count_digits(digit, *search, [&](auto count) {
    kernels::cuda::for_parts(
        length, values,
        [&](const auto& team, std::int64_t, std::int64_t part_length, const T* part) {
          team.visit(
              part_length, aligned, [&](std::int64_t, T value) { count(magnitude_bits(value)); },
              part);
        });
  });
}

// The digit of the k-th largest magnitude, by one block: each thread has the same number of
// neighbouring digits, the first thread the largest.
__global__ void find_digit(std::int64_t k, Digit digit, Search* search) {
  constexpr unsigned digits_of_a_thread = all_digits / block_threads;
  const unsigned* const counts = search->counts[digit.pass];
  const unsigned largest = all_digits - 1 - threadIdx.x * digits_of_a_thread;
  const long long wanted = digit.pass == 0 ? k : search->ties;
  long long here = 0;
  for (unsigned i = 0; i < digits_of_a_thread; ++i) here += counts[largest - i];
  const long long up_to_here = kernels::cuda::sum_up_to_thread(here);
  long long left = wanted - (up_to_here - here);  // behind those of larger digits
  if (left > here && threadIdx.x == block_threads - 1) {
    search->ties = left - here;  // digit 0
  } else if (left > 0 && left <= here) {
    unsigned value = largest;
    while (counts[value] < left) left -= counts[value--];
    search->bits |= value << digit.shift;
    search->ties = left;
  }
}

// --- Chunks, a warp for each

constexpr std::int64_t chunks_of(std::int64_t count) {
  return base::ceil_div(count, elements_of_a_chunk);
}

// body(team, chunk, its first element, how many)
template <class Body>
__device__ void for_chunks(std::int64_t count, Body body) {
  const Team<1> team;
  for (std::int64_t chunk = team.first_row(); chunk < chunks_of(count); chunk += team.row_step()) {
    const std::int64_t begin = chunk * elements_of_a_chunk, left = count - begin;
    body(team, chunk, begin, left < elements_of_a_chunk ? left : elements_of_a_chunk);
  }
}

template <class T>
__global__ void count_chunks(std::int64_t count, bool aligned, const T* values, Search* search,
                             Counts* of_chunks) {
  const unsigned threshold = search->bits;
  for_chunks(
      count, [&](const auto& team, std::int64_t chunk, std::int64_t begin, std::int64_t length) {
        Counts counts;
        bool bad = false;
        team.visit(
            length, aligned,
            [&](std::int64_t, T value) {
              const unsigned bits = magnitude_bits(value);
              counts.both += bits > threshold ? one_above : bits == threshold ? one_equal : 0;
              bad = bad || value - value != T(0);
            },
            values + begin);
        counts.both = team.reduce(counts.both,
                                  [](unsigned long long a, unsigned long long b) { return a + b; });
        if (__any_sync(device::full_warp, bad) && team.lane() == 0)
          atomicExch(&search->nonfinite, 1u);
        if (team.lane() == 0) of_chunks[chunk] = counts;
      });
}

// From the counts of each chunk to those of all chunks before it, by one block.
__global__ void sum_chunks(std::int64_t chunks, Counts* of_chunks) {
  const std::int64_t each = base::ceil_div(chunks, std::int64_t{block_threads});
  const std::int64_t begin = threadIdx.x * each;
  const std::int64_t end = begin + each < chunks ? begin + each : chunks;
  unsigned long long here = 0;
  for (std::int64_t chunk = begin; chunk < end; ++chunk) here += of_chunks[chunk].both;
  unsigned long long before = kernels::cuda::sum_up_to_thread(here) - here;
  for (std::int64_t chunk = begin; chunk < end; ++chunk) {
    const unsigned long long next = before + of_chunks[chunk].both;
    of_chunks[chunk].both = before;
    before = next;
  }
}

// The lanes of a warp of which something is true.
struct Ballot {
  unsigned lanes;
  __device__ unsigned before(int lane) const { return __popc(lanes & ((1u << lane) - 1)); }
  __device__ unsigned all() const { return __popc(lanes); }
};

template <class T>
__global__ void take_chunks(TopKBucket<T> bucket, TopKMessage<T> message, const Search* search,
                            const Counts* before_chunks) {
  const unsigned threshold = search->bits;
  const std::int64_t ties = search->ties;
  const bool nonfinite = search->nonfinite != 0;
  for_chunks(bucket.count, [&](const auto& team, std::int64_t chunk, std::int64_t begin,
                               std::int64_t length) {
    Counts before = before_chunks[chunk];
    for (std::int64_t first = begin; first < begin + length; first += device::warp_size) {
      const std::int64_t i = first + team.lane();
      const bool inside = i < begin + length;
      const T value = inside ? bucket.rest[i] : T(0);
      const unsigned bits = magnitude_bits(value);
      const bool is_above = inside && bits > threshold, is_equal = inside && bits == threshold;
      const Ballot above{__ballot_sync(device::full_warp, is_above)};
      const Ballot equal{__ballot_sync(device::full_warp, is_equal)};
      const std::int64_t equals = before.equal() + equal.before(team.lane());
      if (is_above || (is_equal && equals < ties)) {
        const std::int64_t place =
            before.above() + above.before(team.lane()) + (equals < ties ? equals : ties);
        message.indices[place] = static_cast<std::int32_t>(i);
        message.values[place] = nonfinite ? std::numeric_limits<T>::quiet_NaN() : value;
        bucket.rest[i] = T(0);
      }
      before.both += above.all() * one_above + equal.all() * one_equal;
    }
  });
}

template <class T>
__global__ void add_message(TopKMessage<T> message, TopKBucket<T> bucket) {
  for (std::int64_t i = grid_thread(); i < bucket.k; i += grid_stride()) {
    const std::int64_t index = message.indices[i];
    if (index >= 0 && index < bucket.count) bucket.gradients[index] += message.values[i];
  }
}

}  // namespace

std::size_t selection_scratch_bytes(std::int64_t count) {
  return sizeof(Search) + static_cast<std::size_t>(chunks_of(count)) * sizeof(Counts);
}

template <class T>
void launch_selection(const device::CudaStream& stream, const TopKBucket<T>& bucket,
                      const TopKMessage<T>& message, void* scratch) {
  auto* const search = static_cast<Search*>(scratch);
  auto* const counts = reinterpret_cast<Counts*>(search + 1);
  stream.activate();
  device::check_cuda(cudaMemsetAsync(search, 0, sizeof(Search), stream.native()), "cudaMemsetAsync",
                     stream.place());
  const bool aligned = kernels::cuda::is_aligned(bucket.rest);
  const bool all_aligned = aligned && kernels::cuda::is_aligned(bucket.gradients) &&
                           kernels::cuda::is_aligned(bucket.before);
  const device::LaunchShape of_parts{kernels::cuda::blocks_for_parts(bucket.count), block_threads};
  const device::LaunchShape of_chunks{kernels::cuda::blocks_for_rows<1>(chunks_of(bucket.count)),
                                      block_threads};
  const device::LaunchShape one_block{1, block_threads};
  for (const Digit& digit : digits) {
    if (digit.pass == 0)
      device::launch(stream, of_parts, add_residual_and_count<T>, bucket, all_aligned, digit,
                     search);
    else
      device::launch(stream, of_parts, count_candidates<T>, bucket.count, aligned, bucket.rest,
                     digit, search);
    device::launch(stream, one_block, find_digit, bucket.k, digit, search);
  }
  device::launch(stream, of_chunks, count_chunks<T>, bucket.count, aligned, bucket.rest, search,
                 counts);
  device::launch(stream, one_block, sum_chunks, chunks_of(bucket.count), counts);
  device::launch(stream, of_chunks, take_chunks<T>, bucket, message, search, counts);
}

template <class T>
void launch_add_message(const device::CudaStream& stream, const TopKMessage<T>& message,
                        const TopKBucket<T>& bucket) {
  device::launch(stream, {kernels::cuda::blocks_for(bucket.k), block_threads}, add_message<T>,
                 message, bucket);
}

#define INSTANTIATE_FOR(T)                                                           \
  template void launch_selection(const device::CudaStream&, const TopKBucket<T>&,    \
                                 const TopKMessage<T>&, void*);                      \
  template void launch_add_message(const device::CudaStream&, const TopKMessage<T>&, \
                                   const TopKBucket<T>&)
INSTANTIATE_FOR(float);
INSTANTIATE_FOR(double);
#undef INSTANTIATE_FOR

}  // namespace lockstep::train
