// StreamedRows: the rows of one group at a time, the next one being read meanwhile. Private to this
// folder.
//
// Groups are numbered through all epochs (a generation) and alternate between two buffers that the
// workers of the host share; each worker reads its part of a group's blocks. Two counters per
// worker, in the shared memory as well, keep them apart: `loaded`, the last generation whose part
// it has read, and `entered`, the last generation it has begun to use. A worker reads into a buffer
// when all have entered the generation after the one that the buffer held, and uses a generation
// when all have loaded it.
//
// No worker waits for what another one can only do after a later batch: all enter the same groups
// for the same batch, so workers that take every step together never wait in a circle.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <span>

#include "data/dataset_file.h"
#include "data/row_memory.h"
#include "data/row_store.h"
#include "data/shared_storage.h"

namespace lockstep::data {

class StreamedRows final : public RowStore {
 public:
  // Collective. Checks the range of all labels, each worker its part, so that a bad one is found
  // before training. `sampler` and `storage` must outlive this.
  StreamedRows(DatasetFile file, const SplitInfo& split, const Sampler& sampler,
               SharedStorage& storage, bool verify, std::chrono::milliseconds timeout);

  void seek(std::int64_t epoch, std::int64_t group) override;
  GroupRows enter(std::int64_t epoch, std::int64_t group, const std::stop_token& stop) override;
  void read_ahead(std::int64_t position, const std::stop_token& stop) override;

 private:
  // On a cache line of its own.
  struct alignas(row_memory_alignment) Progress {
    std::int64_t loaded;
    std::int64_t entered;
  };
  using Counter = std::int64_t Progress::*;

  void check_labels() const;
  std::int64_t generation(std::int64_t epoch, std::int64_t group) const;
  const RowMemory& buffer(std::int64_t generation) const;
  void publish(Counter counter, std::int64_t generation);
  bool all_reached(Counter counter, std::int64_t generation) const;
  void wait_until_all(Counter counter, std::int64_t generation, const std::stop_token& stop) const;
  void plan_next(std::int64_t generation);
  void read_next(std::int64_t blocks, const std::stop_token& stop);

  DatasetFile file_;
  SplitInfo split_;
  const Sampler& sampler_;
  SharedStorage& storage_;
  bool verify_;
  std::chrono::milliseconds timeout_;

  std::span<Progress> progress_;  // of each worker
  std::array<RowMemory, 2> buffers_;
  std::int64_t current_ = -1;    // generation in use
  Group group_;                  // of it
  Group next_;                   // of the generation after it
  RowRange next_blocks_;         // of next_.blocks: what is left for this worker to read
  std::int64_t next_share_ = 0;  // its whole part
};

}  // namespace lockstep::data
