// Tester: one rank's side of a conformance test. Each call runs one collective on fresh data,
// compares every element of the result with what it must be, and the memory around the data with
// what it was. Throws what does not hold.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "framework/base/hash.h"
#include "framework/device/buffer.h"
#include "framework/device/context.h"
#include "tests/conformance/values.h"

namespace lockstep::tests {

enum class Memory { addressable, foreign };

// Typed memory with guards around it.
class GuardedMemory {
 public:
  static constexpr std::size_t guard = 256;
  static constexpr std::byte pattern{0xA5};

  // `block` holds `bytes` behind a guard and `offset` more bytes, and a guard behind them.
  GuardedMemory(std::span<std::byte> block, std::size_t offset, std::size_t bytes)
      : block_(block.first(2 * guard + offset + bytes)), offset_(guard + offset), bytes_(bytes) {
    std::fill(block_.begin(), block_.end(), pattern);
  }

  std::byte* data() const { return block_.data() + offset_; }

  void check_guards() const {
    const auto intact = [](std::span<const std::byte> bytes) {
      return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == pattern; });
    };
    if (!intact(block_.first(offset_)) || !intact(block_.subspan(offset_ + bytes_)))
      throw std::runtime_error("memory beside the data was written to");
  }

 private:
  std::span<std::byte> block_;
  std::size_t offset_, bytes_;
};

class Tester {
 public:
  // Collective. `largest`: bytes of the largest data. With a context of a GPU the data is in its
  // memory.
  Tester(comm::Communicator& communicator, Stream& stream, Memory memory, std::size_t largest,
         Context* gpu = nullptr);

  void all_reduce(DType dtype, comm::ReduceOp op, std::int64_t count);
  void reduce(DType dtype, comm::ReduceOp op, std::int64_t count, int root);
  void reduce_scatter(DType dtype, comm::ReduceOp op, std::int64_t count);
  void all_gather(DType dtype, std::int64_t count);
  void broadcast(DType dtype, std::int64_t count, int root);
  void all_to_all(DType dtype, std::int64_t slice_count);

  // Of every result that must be the same on all ranks, so far.
  std::uint64_t digest() const { return digest_; }

 private:
  // Data of `count` elements, `own` of them filled with this rank's contribution, which begins
  // `rank() % 3` elements behind a cache line.
  GuardedMemory filled(DType dtype, std::int64_t count, comm::Slice own, std::size_t which = 0);
  // Where a collective finds the data, on the GPU after a copy.
  comm::Range range_of(const GuardedMemory& memory, DType dtype, std::int64_t count,
                       std::size_t which = 0);
  // Waits for the collective; then everything is in `blocks_` again.
  void finish(const comm::Work& work);
  void add_to_digest(const GuardedMemory& memory, std::size_t bytes);

  comm::Communicator& communicator_;
  Stream& stream_;
  int hops_;  // at which 16-bit sums may be rounded
  std::vector<std::shared_ptr<comm::SymmetricBuffer>> addressable_;
  std::vector<std::vector<std::byte>> foreign_;
  std::vector<std::span<std::byte>> blocks_;
  Context* gpu_;
  std::vector<device::Buffer> private_;  // of the GPU, where it is not addressable
  std::vector<std::byte*> gpu_blocks_;
  std::uint64_t salt_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace lockstep::tests
