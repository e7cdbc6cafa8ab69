// Loader: a rank's share of every batch of a split, normalised, read ahead by a thread of its own.
//
// A split that fits into `memory_limit` is read once per host into memory that the host's workers
// share, each reading its part; the file is then closed. A larger one is streamed through two group
// buffers of half that limit (see sampler.h): while one group is served the next is read, block by
// block, in step with the progress, the workers of the host again sharing the work and the memory.
// uint8 stays uint8 in memory and becomes floating point when a batch is assembled, or on the GPU.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/dataset_file.h"
#include "data/shared_storage.h"
#include "framework/tensor/tensor.h"

namespace lockstep::data {

// Enqueues out = x * factor + offset, channel by channel, on the compute stream: x [rows, channels,
// elements] of the stored type, factor and offset [channels] and out of LoaderOptions::dtype.
using NormalizeBatch = std::function<void(const Tensor& x, const Tensor& factor,
                                          const Tensor& offset, const Tensor& out)>;

struct LoaderOptions {
  int rank = 0;
  int world_size = 1;
  std::int64_t batch_size = 1;  // global: rows of all ranks together
  bool shuffle = true;
  bool drop_last = false;
  int prefetch = 2;  // batches read ahead; 0 reads in next(), on the caller
  std::size_t memory_limit = std::size_t{1} << 30;  // bytes of rows held, per host and loader
  std::uint64_t seed = 0;
  DType dtype = DType::float32;  // of Batch::features: float32 or float64
  // Set for a GPU: rows travel as they are stored, a quarter of the bytes where they are uint8, and
  // become floating point there. The bits are the same.
  NormalizeBatch normalize;
  bool verify = true;  // check the checksums, where the file has them, as chunks are read
  // How long to wait for another worker of the host to read its part of a group.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  // Called before each batch is assembled, with its step counted over all epochs, on the thread
  // that assembles it. What it throws comes out of the next() that would have returned the batch.
  std::function<void(std::int64_t step)> before_read;
};

struct Batch {
  Tensor features;  // [rows, feature shape...], of LoaderOptions::dtype
  Tensor labels;    // [rows] int64
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t first_row = 0;    // where row 0 of this rank stands in the global batch
  std::int64_t global_rows = 0;  // of all ranks together; smaller than batch_size at an uneven end
  std::int64_t rows = 0;         // of this rank; may be 0
  std::span<const std::int64_t> indices;  // of the split's samples in these rows, in order
};

// Making a loader is collective over the workers of the host, and so is seek(); every rank then
// calls next() for the same steps. All of it on one thread, that of `context`. On a GPU the
// compute stream copies each batch from page-locked memory. Context and storage must outlive the
// loader. The destructor never waits for another worker.
//
// Errors: DataError (the file; no samples; no steps; a damaged chunk; a label out of range),
// ConfigError (a memory limit too small for two blocks), RankError (another worker did not read its
// part in time), UsageError (options out of range), and whatever before_read and SharedStorage
// throw. After an error from next() only seek() and the destructor are of use.
class Loader {
 public:
  Loader(Context& context, const std::string& path, std::string_view split,
         const LoaderOptions& options, SharedStorage& storage);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const DatasetInfo& info() const;  // feature shape, class count and names, normalisation
  std::int64_t samples() const;
  std::int64_t steps_per_epoch() const;
  const Shape& feature_shape() const { return info().feature_shape; }
  std::int64_t classes() const { return info().classes; }
  bool in_memory() const;  // whether the whole split is held

  // The next batch is this one. Reading ahead starts here, or at the first next() (which starts at
  // epoch 0, step 0).
  void seek(std::int64_t epoch, std::int64_t step_in_epoch);
  // After the last batch of an epoch comes the first one of the next. Valid until the next call of
  // next() or seek(): the memory is used again, so that a steady state allocates nothing.
  Batch next();
  // Time that next() spent waiting for data (with prefetch 0: reading it), since the start.
  double wait_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
