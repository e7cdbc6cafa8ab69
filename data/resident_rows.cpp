#include "data/resident_rows.h"

#include <algorithm>

namespace lockstep::data {

ResidentRows::ResidentRows(const DatasetFile& file, const SplitInfo& split, const Sampler& sampler,
                           SharedStorage& storage, bool verify)
    : sampler_(sampler) {
  const std::size_t row_bytes = file.info().row_bytes();
  memory_ = RowMemory(storage.allocate(RowMemory::bytes(split.samples, row_bytes)), split.samples,
                      row_bytes);
  const RowRange mine = shard(split.blocks(), storage.rank(), storage.size());
  for (std::int64_t block = mine.begin; block < mine.end; ++block) {
    const std::int64_t first = block * split.block_rows;
    const std::int64_t rows = std::min(split.block_rows, split.samples - first);
    file.read(split.name, first, memory_.features(first, rows), memory_.labels(first, rows),
              verify);
  }
  storage.barrier();
}

GroupRows ResidentRows::enter(std::int64_t epoch, std::int64_t group, const std::stop_token&) {
  if (group_.epoch != epoch) sampler_.group(epoch, group, group_);
  return {&group_, memory_.features(), memory_.labels()};
}

}  // namespace lockstep::data
