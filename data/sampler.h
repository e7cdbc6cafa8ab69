// Which sample stands where: pure functions of (seed, epoch, position).
//
// An epoch is a sequence of positions [0, samples); batch `step` of the epoch takes the positions
// [step * batch_size, ...), and rank r of N takes a contiguous part of each batch. The order of the
// data therefore never depends on the world size, and the only state of a run is how far it came.
//
// A set that does not fit into memory is shuffled in groups of blocks (a block is a run of whole
// chunks of the file): the order of the blocks is permuted, cut into groups that fit, and the rows
// are permuted within their group. Every row of a group comes before every row of the next one. A
// set that fits is a single group: its shuffle is a permutation of all rows.
#pragma once

#include <cstdint>
#include <vector>

#include "data/permutation.h"

namespace lockstep::data {

struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

// The part of a batch of `rows` that rank `rank` of `world_size` computes: [rank * rows /
// world_size, (rank + 1) * rows / world_size). May be empty.
RowRange shard(std::int64_t rows, int rank, int world_size);

struct SamplerOptions {
  std::int64_t samples = 0;     // >= 1
  std::int64_t batch_size = 0;  // global, >= 1
  bool shuffle = true;
  bool drop_last = false;  // leave out a last batch of fewer than batch_size rows
  std::uint64_t seed = 0;
  std::int64_t block_rows = 0;    // rows of a block; the last block may be shorter. 0: one block
  std::int64_t group_blocks = 0;  // blocks of a group. 0: all blocks are one group
};

// A group of one epoch: the rows of its blocks, one block after the other.
struct Group {
  std::int64_t epoch = -1;
  std::int64_t number = -1;
  RowRange positions;                // of the epoch that fall to this group
  std::vector<std::int64_t> blocks;  // ascending
  std::int64_t block_rows = 1;
  bool shuffled = false;
  Permutation order;

  std::int64_t rows() const { return positions.size(); }
  // Which row of the group stands at `position` (of the epoch, within `positions`).
  std::int64_t row_at(std::int64_t position) const {
    const std::int64_t offset = position - positions.begin;
    return shuffled ? static_cast<std::int64_t>(order(static_cast<std::uint64_t>(offset))) : offset;
  }
  // Which sample of the set is row `row` of the group.
  std::int64_t sample_at(std::int64_t row) const {
    return blocks[static_cast<std::size_t>(row / block_rows)] * block_rows + row % block_rows;
  }
};

// Immutable and thread-safe.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);  // throws UsageError when out of range

  const SamplerOptions& options() const { return options_; }
  std::int64_t steps_per_epoch() const;     // 0 when drop_last leaves nothing
  RowRange batch(std::int64_t step) const;  // the positions of a global batch

  std::int64_t blocks() const;
  std::int64_t groups() const;  // of an epoch; without those that drop_last leaves no batch in
  std::int64_t group_of(std::int64_t position) const;
  // Fills `group`, whose memory is used again.
  void group(std::int64_t epoch, std::int64_t number, Group& group) const;

 private:
  SamplerOptions options_;
};

}  // namespace lockstep::data
