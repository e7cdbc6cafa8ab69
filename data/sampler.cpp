#include "data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "framework/base/error.h"

namespace lockstep::data {

RowRange shard(std::int64_t rows, int rank, int world_size) {
  return {rank * rows / world_size, (rank + 1) * rows / world_size};
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (options.samples < 1 || options.batch_size < 1 || options.block_rows < 0 ||
      options.group_blocks < 0) {
    throw UsageError(
        fmt::format("sampler: {} samples in batches of {}, blocks of {} rows, groups of "
                    "{} blocks; expected samples and batches of at least 1",
                    options.samples, options.batch_size, options.block_rows, options.group_blocks));
  }
  if (options_.block_rows == 0) options_.block_rows = options_.samples;
  if (options_.group_blocks == 0) options_.group_blocks = blocks();
}

std::int64_t Sampler::steps_per_epoch() const {
  const std::int64_t whole = options_.samples / options_.batch_size;
  const bool uneven = options_.samples % options_.batch_size != 0;
  return whole + (uneven && !options_.drop_last ? 1 : 0);
}

RowRange Sampler::batch(std::int64_t step) const {
  const std::int64_t begin = step * options_.batch_size;
  return {begin, std::min(begin + options_.batch_size, options_.samples)};
}

std::int64_t Sampler::blocks() const {
  return (options_.samples + options_.block_rows - 1) / options_.block_rows;
}

std::int64_t Sampler::groups() const {
  return steps_per_epoch() == 0 ? 0 : group_of(batch(steps_per_epoch() - 1).end - 1) + 1;
}

std::int64_t Sampler::group_of(std::int64_t position) const {
  return position / (options_.group_blocks * options_.block_rows);
}

void Sampler::group(std::int64_t epoch, std::int64_t number, Group& group) const {
  const std::int64_t begin = number * options_.group_blocks;
  const std::int64_t end = std::min(begin + options_.group_blocks, blocks());
  group.epoch = epoch;
  group.number = number;
  group.positions = {begin * options_.block_rows,
                     std::min(end * options_.block_rows, options_.samples)};
  group.block_rows = options_.block_rows;
  group.shuffled = options_.shuffle;
  group.blocks.resize(static_cast<std::size_t>(end - begin));
  std::iota(group.blocks.begin(), group.blocks.end(), begin);
  if (!options_.shuffle) return;

  const auto step = static_cast<std::uint64_t>(epoch);
  // A shorter last block keeps its place at the end of the last group, so that every group before
  // it is full and a position alone says its group.
  const std::int64_t full_blocks = options_.samples / options_.block_rows;
  const Permutation order(static_cast<std::uint64_t>(full_blocks), options_.seed, "shuffle blocks",
                          step);
  for (std::int64_t& block : group.blocks) {
    if (block < full_blocks) {
      block = static_cast<std::int64_t>(order(static_cast<std::uint64_t>(block)));
    }
  }
  std::ranges::sort(group.blocks);
  const auto all_groups = (blocks() + options_.group_blocks - 1) / options_.group_blocks;
  const auto key = static_cast<std::uint64_t>(epoch * all_groups + number);
  group.order =
      Permutation(static_cast<std::uint64_t>(group.rows()), options_.seed, "shuffle rows", key);
}

}  // namespace lockstep::data
