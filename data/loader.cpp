#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "data/normalizer.h"
#include "data/prefetcher.h"
#include "data/resident_rows.h"
#include "data/streamed_rows.h"
#include "framework/base/error.h"

namespace lockstep::data {

namespace {

constexpr std::size_t rows_ahead = 2;
constexpr std::size_t cache_line = 64;
constexpr std::size_t most_prefetched = 4096;  // of a row; what follows the processor sees coming

// Asks for the lines of a row, to be read soon.
void prefetch(const std::byte* row, std::size_t bytes) {
  for (std::size_t at = 0; at < std::min(bytes, most_prefetched); at += cache_line) {
    __builtin_prefetch(row + at);
  }
}

void check_options(const LoaderOptions& options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    throw UsageError(fmt::format("loader: rank {} of {} ranks", options.rank, options.world_size));
  }
  if (options.batch_size < 1 || options.prefetch < 0) {
    throw UsageError(fmt::format("loader: batch size {}, prefetch {}; expected at least 1 and 0",
                                 options.batch_size, options.prefetch));
  }
}

std::size_t bytes_of_rows(const DatasetInfo& info, std::int64_t rows) {
  return static_cast<std::size_t>(rows) * (info.row_bytes() + sizeof(std::int64_t));
}

// How many blocks make a group when two groups are to fit into the memory limit; 0 when all rows
// fit.
std::int64_t group_blocks(const std::string& path, const DatasetInfo& info, const SplitInfo& split,
                          std::size_t memory_limit) {
  if (bytes_of_rows(info, split.samples) <= memory_limit) return 0;
  const std::size_t block_bytes = bytes_of_rows(info, split.block_rows);
  const std::size_t blocks = memory_limit / 2 / block_bytes;
  if (blocks == 0) {
    throw ConfigError(
        fmt::format("{}: /{}: memory limit of {} bytes, expected at least {} for two "
                    "blocks of {} rows (or {} for all rows)",
                    path, split.name, memory_limit, 2 * block_bytes, split.block_rows,
                    bytes_of_rows(info, split.samples)));
  }
  return static_cast<std::int64_t>(blocks);
}

Sampler make_sampler(const std::string& path, const DatasetInfo& info, const SplitInfo& split,
                     const LoaderOptions& options) {
  if (split.samples == 0) {
    throw DataError(fmt::format("{}: /{}: found 0 samples, expected at least 1", path, split.name));
  }
  SamplerOptions sampling;
  sampling.samples = split.samples;
  sampling.batch_size = options.batch_size;
  sampling.shuffle = options.shuffle;
  sampling.drop_last = options.drop_last;
  sampling.seed = options.seed;
  sampling.group_blocks = group_blocks(path, info, split, options.memory_limit);
  sampling.block_rows = sampling.group_blocks == 0 ? split.samples : split.block_rows;
  Sampler sampler(sampling);
  if (sampler.steps_per_epoch() == 0) {
    throw DataError(
        fmt::format("{}: /{}: an epoch has 0 steps: found {} samples, expected at least "
                    "the batch size of {} when the last batch is dropped",
                    path, split.name, split.samples, options.batch_size));
  }
  return sampler;
}

}  // namespace

struct Loader::Impl {
  // A factor and an offset for each channel, in memory of the context's device.
  struct Channels {
    Tensor factor, offset;
  };
  // The memory of one batch on the host, with room for the largest share of one.
  struct Slot {
    Buffer features;
    Buffer labels;
    std::vector<std::int64_t> indices;
    Batch batch;
  };

  Impl(Context& context, DatasetFile file, std::string_view split_name, const LoaderOptions& given,
       SharedStorage& storage);
  bool in_memory() const { return sampler.blocks() == 1; }
  std::unique_ptr<RowStore> make_store(DatasetFile file, SharedStorage& storage);
  void make_slots();
  Channels make_channels() const;
  std::size_t slot_row_bytes() const;
  Tensor features_of(const Slot& slot, std::int64_t rows) const;
  Tensor hand_out(const Buffer& values, const Shape& shape, DType dtype) const;
  void start_at(std::int64_t epoch, std::int64_t step);
  void fill(Slot& slot, const std::stop_token& stop);
  void gather(const GroupRows& rows, RowRange positions, std::int64_t first, Slot& slot) const;

  Context& context;
  LoaderOptions options;
  DatasetInfo info;
  SplitInfo split;
  Sampler sampler;
  Normalizer normalizer;
  Channels channels;  // where options.normalize is to have them
  std::unique_ptr<RowStore> store;
  std::vector<Slot> slots;
  Shape batch_shape;       // of the features, with the rows of the largest share
  Event copied;            // a GPU has the batch that was handed out last
  std::int64_t epoch = 0;  // of the next batch to be filled
  std::int64_t step = 0;
  std::chrono::steady_clock::duration waited{};
  Prefetcher prefetcher;  // last, since its thread uses all the others
};

Loader::Impl::Impl(Context& of_rank, DatasetFile file, std::string_view split_name,
                   const LoaderOptions& given, SharedStorage& storage)
    : context(of_rank),
      options(given),
      info(file.info()),
      split(file.split(split_name)),
      sampler(make_sampler(file.path(), info, split, options)),
      normalizer(info, options.dtype),
      channels(options.normalize ? make_channels() : Channels()),
      store(make_store(std::move(file), storage)),
      prefetcher(
          static_cast<std::size_t>(options.prefetch),
          [this](std::size_t slot, const std::stop_token& stop) { fill(slots[slot], stop); }) {
  make_slots();
}

std::unique_ptr<RowStore> Loader::Impl::make_store(DatasetFile file, SharedStorage& storage) {
  if (in_memory()) {
    return std::make_unique<ResidentRows>(file, split, sampler, storage, options.verify);
  }
  return std::make_unique<StreamedRows>(std::move(file), split, sampler, storage, options.verify,
                                        options.timeout);
}

void Loader::Impl::make_slots() {
  const std::int64_t largest_batch = std::min(options.batch_size, split.samples);
  const std::int64_t rows = (largest_batch + options.world_size - 1) / options.world_size;
  std::vector<std::int64_t> extents{rows};
  const auto of_sample = info.feature_shape.extents();
  extents.insert(extents.end(), of_sample.begin(), of_sample.end());
  batch_shape = Shape(extents);
  const auto count = static_cast<std::size_t>(rows);
  slots.resize(prefetcher.slots());
  for (Slot& slot : slots) {
    slot.features = Buffer(context.host_memory(), count * slot_row_bytes());
    slot.labels = Buffer(context.host_memory(), count * sizeof(std::int64_t));
    slot.indices.resize(count);
  }
}

Loader::Impl::Channels Loader::Impl::make_channels() const {
  const auto on_device = [this](std::span<const double> values) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    if (options.dtype == DType::float64) return Tensor::from(context, values, shape);
    const std::vector<float> rounded(values.begin(), values.end());
    return Tensor::from(context, std::span(rounded), shape);
  };
  return {on_device(normalizer.factor()), on_device(normalizer.offset())};
}

std::size_t Loader::Impl::slot_row_bytes() const {
  if (options.normalize) return info.row_bytes();
  return static_cast<std::size_t>(info.feature_shape.count()) * base::size_of(options.dtype);
}

Tensor Loader::Impl::features_of(const Slot& slot, std::int64_t rows) const {
  Shape shape = batch_shape;
  shape[0] = rows;
  if (!options.normalize) return hand_out(slot.features, shape, options.dtype);
  const std::int64_t count = channels.factor.count();
  const Shape by_channel{rows, count, info.feature_shape.count() / count};
  const Tensor stored = hand_out(slot.features, by_channel, info.dtype);
  Tensor features = Tensor::empty(context, shape, options.dtype);
  if (rows > 0)
    options.normalize(stored, channels.factor, channels.offset, features.reshape(by_channel));
  return features;
}

// On the CPU the values where they lie, on a GPU a copy that the compute stream makes.
Tensor Loader::Impl::hand_out(const Buffer& values, const Shape& shape, DType dtype) const {
  if (context.device().kind == DeviceKind::cpu) {
    return Tensor::on_buffer(context, values, 0, shape, dtype);
  }
  const Tensor tensor = Tensor::empty(context, shape, dtype);
  if (tensor.bytes() > 0) {
    context.copy(tensor.data(), values.data(), tensor.bytes(), context.compute_stream());
  }
  return tensor;
}

void Loader::Impl::start_at(std::int64_t to_epoch, std::int64_t to_step) {
  prefetcher.stop();
  copied.wait();
  epoch = to_epoch;
  step = to_step;
  store->seek(epoch, sampler.group_of(sampler.batch(step).begin));
  prefetcher.start();
}

void Loader::Impl::fill(Slot& slot, const std::stop_token& stop) {
  if (options.before_read) options.before_read(epoch * sampler.steps_per_epoch() + step);
  const RowRange global = sampler.batch(step);
  const RowRange share = shard(global.size(), options.rank, options.world_size);
  const RowRange mine{global.begin + share.begin, global.begin + share.end};
  Batch& batch = slot.batch;
  batch.epoch = epoch;
  batch.step_in_epoch = step;
  batch.first_row = share.begin;
  batch.global_rows = global.size();
  batch.rows = share.size();
  batch.indices = std::span(slot.indices).first(static_cast<std::size_t>(share.size()));

  const std::int64_t last_group = sampler.group_of(global.end - 1);
  for (std::int64_t group = sampler.group_of(global.begin); group <= last_group; ++group) {
    const GroupRows rows = store->enter(epoch, group, stop);
    const RowRange& here = rows.group->positions;
    gather(rows, {std::max(mine.begin, here.begin), std::min(mine.end, here.end)}, mine.begin,
           slot);
  }
  store->read_ahead(global.end, stop);
  if (++step == sampler.steps_per_epoch()) {
    step = 0;
    ++epoch;
  }
}

// Puts the samples at `positions` into the slot, where row 0 is the sample at position `first`.
void Loader::Impl::gather(const GroupRows& rows, RowRange positions, std::int64_t first,
                          Slot& slot) const {
  if (positions.size() <= 0) return;
  const std::size_t stored_bytes = info.row_bytes();
  const std::size_t slot_bytes = slot_row_bytes();
  const auto from = static_cast<std::size_t>(positions.begin - first);
  const auto count = static_cast<std::size_t>(positions.size());
  auto* const features = static_cast<std::byte*>(slot.features.data()) + from * slot_bytes;
  auto* const labels = static_cast<std::int64_t*>(slot.labels.data()) + from;
  const std::span indices = std::span(slot.indices).subspan(from, count);

  for (std::size_t i = 0; i < count; ++i) {
    indices[i] = rows.group->row_at(positions.begin + static_cast<std::int64_t>(i));
  }
  const auto stored_row = [&](std::size_t i) {
    return rows.features + static_cast<std::size_t>(indices[i]) * stored_bytes;
  };
  for (std::size_t i = 0; i < count; ++i) {
    // Shuffled rows are scattered, and the processor does not guess the next one.
    if (i + rows_ahead < count) prefetch(stored_row(i + rows_ahead), stored_bytes);
    if (options.normalize)
      std::memcpy(features + i * slot_bytes, stored_row(i), stored_bytes);
    else
      normalizer(stored_row(i), features + i * slot_bytes);
    labels[i] = rows.labels[indices[i]];
  }
  for (std::int64_t& index : indices) index = rows.group->sample_at(index);
}

Loader::Loader(Context& context, const std::string& path, std::string_view split,
               const LoaderOptions& options, SharedStorage& storage) {
  check_options(options);
  impl_ = std::make_unique<Impl>(context, DatasetFile(path), split, options, storage);
}

Loader::~Loader() = default;

const DatasetInfo& Loader::info() const {
  return impl_->info;
}
std::int64_t Loader::samples() const {
  return impl_->split.samples;
}
std::int64_t Loader::steps_per_epoch() const {
  return impl_->sampler.steps_per_epoch();
}
bool Loader::in_memory() const {
  return impl_->in_memory();
}
double Loader::wait_seconds() const {
  return std::chrono::duration<double>(impl_->waited).count();
}

void Loader::seek(std::int64_t epoch, std::int64_t step_in_epoch) {
  if (epoch < 0 || step_in_epoch < 0 || step_in_epoch >= steps_per_epoch()) {
    throw UsageError(fmt::format("loader: seek to epoch {}, step {} of {}", epoch, step_in_epoch,
                                 steps_per_epoch()));
  }
  impl_->start_at(epoch, step_in_epoch);
}

Batch Loader::next() {
  if (!impl_->prefetcher.running()) impl_->start_at(0, 0);
  impl_->copied.wait();  // its memory is filled again
  const auto start = std::chrono::steady_clock::now();
  Impl::Slot& slot = impl_->slots[impl_->prefetcher.next()];
  impl_->waited += std::chrono::steady_clock::now() - start;
  Batch batch = slot.batch;
  batch.features = impl_->features_of(slot, batch.rows);
  batch.labels = impl_->hand_out(slot.labels, Shape{batch.rows}, DType::int64);
  if (impl_->context.device().kind != DeviceKind::cpu) {
    impl_->copied = impl_->context.compute_stream().record();
  }
  return batch;
}

}  // namespace lockstep::data
