// all_reduce of small messages: data and flag travel in one store, so that nothing waits for a flag
// behind the data, and ranks tell each other what they have come for on the same way.
//
// one_shot: every rank sends all its data to all others. two_shot: every rank gets its slice of the
// data from all others, reduces it, and sends the result to all others. Both add in the order of
// the ranks, so all ranks get the same bits.
#pragma once

#include "comm/ring/cuda/channel.cuh"
#include "comm/ring/cuda/elements.cuh"

namespace lockstep::comm::ring::cuda {

// 8 bytes of elements: what a pack carries.
template <class T>
struct alignas(8) Octet {
  static constexpr int size = static_cast<int>(8 / sizeof(T));
  T lane[8 / sizeof(T)];
};

// Elements cut into octets; lanes behind the last element hold 0.
template <class T>
struct Octets {
  T* begin;
  std::int64_t elements;

  __device__ std::int64_t count() const { return (elements + Octet<T>::size - 1) / Octet<T>::size; }
  __device__ Octet<T> load(std::int64_t index) const {
    Octet<T> octet;
#pragma unroll
    for (int lane = 0; lane < Octet<T>::size; ++lane) {
      const std::int64_t at = index * Octet<T>::size + lane;
      octet.lane[lane] = at < elements ? begin[at] : T{};
    }
    return octet;
  }
  __device__ void store(std::int64_t index, const Octet<T>& octet) const {
#pragma unroll
    for (int lane = 0; lane < Octet<T>::size; ++lane) {
      const std::int64_t at = index * Octet<T>::size + lane;
      if (at < elements) begin[at] = octet.lane[lane];
    }
  }
};

template <class T>
__device__ std::uint64_t bits_of(const Octet<T>& octet) {
  std::uint64_t bits;
  __builtin_memcpy(&bits, &octet, sizeof(bits));
  return bits;
}
template <class T>
__device__ Octet<T> octet_of(std::uint64_t bits) {
  Octet<T> octet;
  __builtin_memcpy(static_cast<void*>(&octet), &bits, sizeof(bits));
  return octet;
}

// To all other ranks, at place `at` of what they have from this one; each begins with another.
__device__ inline void send_to_all(const Channel& channel, std::int64_t at, std::uint64_t bits) {
  const Pack packed = pack(bits, channel.flag());
  for (int step = 1; step < channel.size(); ++step) {
    const int peer = (channel.rank() + step) % channel.size();
    store_pack(channel.packs(peer, channel.rank()) + at, packed);
  }
}

// One thread: the octet of all ranks at place `at`, reduced. `own` is this rank's.
template <class T>
__device__ bool reduce_octet(const Channel& channel, ReduceOp op, std::int64_t at,
                             const Octet<T>& own, Octet<T>& result) {
  Accumulator<T> sum[Octet<T>::size] = {};
  for (int rank = 0; rank < channel.size(); ++rank) {
    Octet<T> octet = own;
    if (rank != channel.rank()) {
      std::uint64_t bits = 0;
      if (!channel.receive(channel.packs(channel.rank(), rank) + at, bits, rank)) return false;
      octet = octet_of<T>(bits);
    }
#pragma unroll
    for (int i = 0; i < Octet<T>::size; ++i) {
      const auto value = static_cast<Accumulator<T>>(octet.lane[i]);
      sum[i] = rank == 0 ? value : combine(op, sum[i], value);
    }
  }
  const int divisor = op == ReduceOp::avg ? channel.size() : 1;
#pragma unroll
  for (int i = 0; i < Octet<T>::size; ++i) result.lane[i] = finish<T>(sum[i], divisor);
  return true;
}

// The octets of a channel: [begin, end) of `count`.
__device__ inline Slice octets_of_channel(std::int64_t count) {
  return slice_of(count, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
}

template <class T>
__device__ void one_shot(const Channel& channel, ReduceOp op, const Octets<T>& data) {
  const Slice mine = octets_of_channel(data.count());
  channel.announce();
  for (std::int64_t i = mine.begin + threadIdx.x; i < mine.end; i += blockDim.x) {
    send_to_all(channel, i - mine.begin, bits_of(data.load(i)));
  }
  if (!channel.agree()) return;
  bool went_well = true;
  for (std::int64_t i = mine.begin + threadIdx.x; i < mine.end && went_well; i += blockDim.x) {
    Octet<T> result;
    went_well = reduce_octet(channel, op, i - mine.begin, data.load(i), result);
    if (went_well) data.store(i, result);
  }
  if (__syncthreads_and(went_well) != 0) channel.close();
}

// A thread sends, reduces and takes the same octets of every slice, so that it need not wait for
// others of its block. The results go behind the first half of the packs.
template <class T>
__device__ void two_shot(const Channel& channel, ReduceOp op, const Octets<T>& data,
                         std::int64_t results) {
  const int size = channel.size(), rank = channel.rank();
  const std::int64_t per_slice = (data.count() + size - 1) / size;
  const Slice mine = octets_of_channel(per_slice);
  const auto exists = [&](int slice, std::int64_t i) {
    return slice * per_slice + i < data.count();
  };
  channel.announce();
  for (std::int64_t i = mine.begin + threadIdx.x; i < mine.end; i += blockDim.x) {
    for (int step = 1; step < size; ++step) {
      const int peer = (rank + step) % size;
      if (!exists(peer, i)) continue;
      const std::uint64_t bits = bits_of(data.load(peer * per_slice + i));
      store_pack(channel.packs(peer, rank) + (i - mine.begin), pack(bits, channel.flag()));
    }
  }
  if (!channel.agree()) return;
  bool went_well = true;
  for (std::int64_t i = mine.begin + threadIdx.x; i < mine.end && went_well; i += blockDim.x) {
    const std::int64_t at = i - mine.begin;
    if (exists(rank, i)) {
      const std::int64_t own = rank * per_slice + i;
      Octet<T> result;
      went_well = reduce_octet(channel, op, at, data.load(own), result);
      if (went_well) {
        data.store(own, result);
        send_to_all(channel, results + at, bits_of(result));
      }
    }
    for (int step = 1; step < size && went_well; ++step) {
      const int peer = (rank + step) % size;
      if (!exists(peer, i)) continue;
      std::uint64_t bits = 0;
      went_well = channel.receive(channel.packs(rank, peer) + results + at, bits, peer);
      if (went_well) data.store(peer * per_slice + i, octet_of<T>(bits));
    }
  }
  if (__syncthreads_and(went_well) != 0) channel.close();
}

template <class T>
__global__ void __launch_bounds__(most_threads, 1)
    low_latency_kernel(World world, Call call, bool twice) {
  const Channel channel(world, call);
  const Octets<T> data{static_cast<T*>(call.data), call.count};
  if (twice) {
    two_shot(channel, call.signature.op, data, world.layout.shape.packs / 2);
  } else {
    one_shot(channel, call.signature.op, data);
  }
}

}  // namespace lockstep::comm::ring::cuda
