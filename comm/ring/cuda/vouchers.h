// Vouchers: words in which ranks tell each other, on their streams, that nothing has failed so far.
//
// Where a collective consists of stages of several communicators, enqueued one behind the other, a
// stage that fails on a rank does not keep the next from running there, on wrong data. So behind
// the last stage in which data passes between communicators each rank vouches for itself: a kernel
// writes a word of its own, which the ranks gather (through the communicator whose data they vouch
// for), and a second kernel looks at all of them. Where one is missing, the ring of the rank that
// looks fails at this point of its stream, as if by itself: what its host does next, it does
// without that rank, and nobody takes the result for good.
//
// A word is a hash of its rank and of how often that has vouched. So nobody else can give it, by
// passing on what it has from before, or from a library that was ended in the middle; and counting
// on the GPU, a captured graph vouches anew whenever it is replayed.
#pragma once

#include "comm/communicator.h"
#include "comm/ring/cuda/world.h"
#include "framework/device/buffer.h"
#include "framework/device/cuda/cuda_memory.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::comm::ring::cuda {

class Vouchers {
 public:
  // Of rank `own` of `count`, on the stream's GPU.
  Vouchers(const device::CudaStream& stream, int own, int count);

  // For an all_gather over the ranks.
  Range range() const { return {words_.words, words_.count, DType::int64}; }
  const VoucherWords& words() const { return words_; }

 private:
  device::CudaDeviceMemory memory_;
  device::Buffer buffer_;  // the words, then the epoch
  VoucherWords words_;
};

}  // namespace lockstep::comm::ring::cuda
