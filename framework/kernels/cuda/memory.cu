#include "framework/kernels/cuda/memory.h"

#include <cstring>
#include <type_traits>

#include "framework/base/division.h"
#include "framework/kernels/convert.h"
#include "framework/kernels/cuda/map.cuh"
#include "framework/kernels/operations.h"

namespace lockstep::kernels::cuda {
namespace {

template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};

struct Same {
  template <class T>
  __device__ T operator()(T x) const {
    return x;
  }
};

template <class To>
struct ConvertTo {
  template <class From>
  __device__ To operator()(From x) const {
    return convert<To>(x);
  }
};

constexpr unsigned tile = 32;
constexpr unsigned tile_rows = 8;  // threads of a block: tile x tile_rows

// Squares go through shared memory, so that both sides are read and written along their own rows.
template <class Bits>
__global__ void copy_transposed(TransposedMatrices matrices, std::int64_t tiles_down,
                                std::int64_t tiles_across, const Bits* x, Bits* out) {
  LOCKSTEP_SHARED(square, Bits[tile][tile + 1]);  // the column beside keeps banks apart
  const std::int64_t tiles = matrices.batch.count * tiles_down * tiles_across;
  for (std::int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const std::int64_t column = at % tiles_across * tile;
    const std::int64_t row = at / tiles_across % tiles_down * tile;
    const Places places = matrices.batch.places(at / tiles_across / tiles_down);
    for (unsigned i = threadIdx.y; i < tile; i += tile_rows) {
      const std::int64_t r = row + threadIdx.x, c = column + i;
      if (r < matrices.rows && c < matrices.columns) {
        square[i][threadIdx.x] = x[places.at[1] + c * matrices.x_column_stride + r];
      }
    }
    __syncthreads();
    for (unsigned i = threadIdx.y; i < tile; i += tile_rows) {
      const std::int64_t r = row + i, c = column + threadIdx.x;
      if (r < matrices.rows && c < matrices.columns) {
        out[places.at[0] + r * matrices.out_row_stride + c] = square[threadIdx.x][i];
      }
    }
    __syncthreads();
  }
}

// Conversions that are not between floating types of training are rare; a read that asks for the
// type at each element keeps the number of kernels at one for each type written.
template <class To>
__global__ void convert_any(Space space, DType from, const void* x, To* out) {
  for (std::int64_t i = grid_thread(); i < space.count; i += grid_stride()) {
    const Places places = space.places(i);
    const std::int64_t at = places.at[1];
    To value{};
    switch (from) {
      case DType::float32:
        value = convert<To>(static_cast<const float*>(x)[at]);
        break;
      case DType::float64:
        value = convert<To>(static_cast<const double*>(x)[at]);
        break;
      case DType::bfloat16:
        value = convert<To>(static_cast<const bfloat16*>(x)[at]);
        break;
      case DType::float16:
        value = convert<To>(static_cast<const float16*>(x)[at]);
        break;
      case DType::int32:
        value = convert<To>(static_cast<const std::int32_t*>(x)[at]);
        break;
      case DType::int64:
        value = convert<To>(static_cast<const std::int64_t*>(x)[at]);
        break;
      case DType::uint8:
        value = convert<To>(static_cast<const std::uint8_t*>(x)[at]);
        break;
    }
    out[places.at[0]] = value;
  }
}

template <class To, class From>
void convert_floats(const device::CudaStream& stream, const MapLoop& loop, const void* x,
                    void* out) {
  map(stream, loop, ConvertTo<To>{}, static_cast<To*>(out), static_cast<const From*>(x));
}

struct StoredBytes {
  std::uint8_t byte[most_stored_bytes];
};

__global__ void store_bytes(StoredBytes bytes, unsigned count, std::uint8_t* out) {
  if (threadIdx.x < count) out[threadIdx.x] = bytes.byte[threadIdx.x];
}

}  // namespace

template <class Bits>
void launch_fill(const device::CudaStream& stream, const MapLoop& loop, Bits value, Bits* out) {
  map(stream, loop, Constant<Bits>{value}, out);
}

template <class Bits>
void launch_copy(const device::CudaStream& stream, const MapLoop& loop, const Bits* x, Bits* out) {
  map(stream, loop, Same{}, out, x);
}

template <class Bits>
void launch_transposed_copy(const device::CudaStream& stream, const TransposedMatrices& matrices,
                            const Bits* x, Bits* out) {
  const std::int64_t down = base::ceil_div(matrices.rows, tile);
  const std::int64_t across = base::ceil_div(matrices.columns, tile);
  const unsigned blocks = blocks_for(matrices.batch.count * down * across, 1);
  device::launch(stream, {blocks, dim3(tile, tile_rows)}, copy_transposed<Bits>, matrices, down,
                 across, x, out);
}

void launch_store(const device::CudaStream& stream, std::span<const std::byte> bytes, void* out) {
  StoredBytes stored{};
  std::memcpy(stored.byte, bytes.data(), bytes.size());
  device::launch(stream, {1, most_stored_bytes}, store_bytes, stored,
                 static_cast<unsigned>(bytes.size()), static_cast<std::uint8_t*>(out));
}

void launch_convert(const device::CudaStream& stream, const MapLoop& loop, DType from,
                    const void* x, DType to, void* out) {
  if (loop.count == 0) return;
  const auto is = [=](DType a, DType b) { return from == a && to == b; };
  if (is(DType::float32, DType::bfloat16)) {
    convert_floats<bfloat16, float>(stream, loop, x, out);
  } else if (is(DType::bfloat16, DType::float32)) {
    convert_floats<float, bfloat16>(stream, loop, x, out);
  } else if (is(DType::float32, DType::float16)) {
    convert_floats<float16, float>(stream, loop, x, out);
  } else if (is(DType::float16, DType::float32)) {
    convert_floats<float, float16>(stream, loop, x, out);
  } else {
    base::visit_dtype(to, [&]<class To>(base::TypeTag<To>) {
      device::launch(stream, {blocks_for(loop.count), block_threads}, convert_any<To>, loop.space,
                     from, x, static_cast<To*>(out));
    });
  }
}

#define LOCKSTEP_MEMORY(Bits)                                                                \
  template void launch_fill(const device::CudaStream&, const MapLoop&, Bits, Bits*);         \
  template void launch_copy(const device::CudaStream&, const MapLoop&, const Bits*, Bits*);  \
  template void launch_transposed_copy(const device::CudaStream&, const TransposedMatrices&, \
                                       const Bits*, Bits*);
LOCKSTEP_MEMORY(std::uint8_t)
LOCKSTEP_MEMORY(std::uint16_t)
LOCKSTEP_MEMORY(std::uint32_t)
LOCKSTEP_MEMORY(std::uint64_t)
#undef LOCKSTEP_MEMORY

}  // namespace lockstep::kernels::cuda
