#include "data/streamed_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::data {

namespace {

constexpr auto poll_interval = std::chrono::microseconds(100);
constexpr std::int64_t label_check_rows = 1 << 17;

}  // namespace

StreamedRows::StreamedRows(DatasetFile file, const SplitInfo& split, const Sampler& sampler,
                           SharedStorage& storage, bool verify, std::chrono::milliseconds timeout)
    : file_(std::move(file)),
      split_(split),
      sampler_(sampler),
      storage_(storage),
      verify_(verify),
      timeout_(timeout) {
  const auto workers = static_cast<std::size_t>(storage.size());
  const std::int64_t rows = sampler.options().group_blocks * sampler.options().block_rows;
  const std::size_t row_bytes = file_.info().row_bytes();
  const std::size_t buffer_bytes = RowMemory::bytes(rows, row_bytes);
  const auto memory = storage.allocate(workers * sizeof(Progress) + 2 * buffer_bytes);
  progress_ = {reinterpret_cast<Progress*>(memory.data()), workers};
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i] =
        RowMemory(memory.subspan(workers * sizeof(Progress) + i * buffer_bytes), rows, row_bytes);
  }
  check_labels();
}

void StreamedRows::check_labels() const {
  const RowRange mine = shard(split_.samples, storage_.rank(), storage_.size());
  std::vector<std::int64_t> labels;
  for (std::int64_t first = mine.begin; first < mine.end; first += label_check_rows) {
    labels.resize(static_cast<std::size_t>(std::min(label_check_rows, mine.end - first)));
    file_.read_labels(split_.name, first, labels);
  }
}

std::int64_t StreamedRows::generation(std::int64_t epoch, std::int64_t group) const {
  return epoch * sampler_.groups() + group;
}

const RowMemory& StreamedRows::buffer(std::int64_t generation) const {
  return buffers_[static_cast<std::size_t>(generation % 2)];
}

void StreamedRows::publish(Counter counter, std::int64_t generation) {
  Progress& mine = progress_[static_cast<std::size_t>(storage_.rank())];
  std::atomic_ref(mine.*counter).store(generation, std::memory_order_release);
}

bool StreamedRows::all_reached(Counter counter, std::int64_t generation) const {
  return std::ranges::all_of(progress_, [&](Progress& worker) {
    return std::atomic_ref(worker.*counter).load(std::memory_order_acquire) >= generation;
  });
}

void StreamedRows::wait_until_all(Counter counter, std::int64_t generation,
                                  const std::stop_token& stop) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  for (std::size_t worker = 0; worker < progress_.size(); ++worker) {
    const std::atomic_ref reached(progress_[worker].*counter);
    while (reached.load(std::memory_order_acquire) < generation) {
      if (stop.stop_requested()) throw Cancelled{};
      storage_.check();
      if (std::chrono::steady_clock::now() > deadline) {
        throw RankError(static_cast<int>(worker),
                        fmt::format("{}: /{}: worker {} of this host has not read its part of the "
                                    "next rows within {} ms",
                                    file_.path(), split_.name, worker, timeout_.count()));
      }
      std::this_thread::sleep_for(poll_interval);
    }
  }
}

void StreamedRows::plan_next(std::int64_t generation) {
  sampler_.group(generation / sampler_.groups(), generation % sampler_.groups(), next_);
  next_blocks_ =
      shard(static_cast<std::int64_t>(next_.blocks.size()), storage_.rank(), storage_.size());
  next_share_ = next_blocks_.size();
}

void StreamedRows::read_next(std::int64_t blocks, const std::stop_token& stop) {
  const RowMemory& memory = buffer(current_ + 1);
  for (; blocks > 0; --blocks) {
    if (stop.stop_requested()) throw Cancelled{};
    const std::int64_t at = next_blocks_.begin * split_.block_rows;  // within the group
    const std::int64_t first = next_.sample_at(at);
    const std::int64_t rows = std::min(split_.block_rows, split_.samples - first);
    file_.read(split_.name, first, memory.features(at, rows), memory.labels(at, rows), verify_);
    ++next_blocks_.begin;
  }
}

void StreamedRows::seek(std::int64_t epoch, std::int64_t group) {
  storage_.barrier();  // nobody uses or fills the buffers any more
  current_ = generation(epoch, group) - 1;
  publish(&Progress::loaded, current_);
  publish(&Progress::entered, current_);
  plan_next(current_ + 1);
  storage_.barrier();
}

GroupRows StreamedRows::enter(std::int64_t epoch, std::int64_t group, const std::stop_token& stop) {
  const std::int64_t wanted = generation(epoch, group);
  if (wanted != current_) {
    wait_until_all(&Progress::entered, current_, stop);
    read_next(next_blocks_.size(), stop);
    publish(&Progress::loaded, wanted);
    wait_until_all(&Progress::loaded, wanted, stop);
    current_ = wanted;
    publish(&Progress::entered, current_);
    std::swap(group_, next_);
    plan_next(current_ + 1);
  }
  return {&group_, buffer(current_).features(), buffer(current_).labels()};
}

void StreamedRows::read_ahead(std::int64_t position, const std::stop_token& stop) {
  // As large a part of the next group as has been used of this one, so that reading is spread
  // evenly.
  const std::int64_t used = position - group_.positions.begin;
  const std::int64_t due = (next_share_ * used + group_.rows() - 1) / group_.rows();
  const std::int64_t missing = due - (next_share_ - next_blocks_.size());
  if (missing > 0 && all_reached(&Progress::entered, current_)) read_next(missing, stop);
}

}  // namespace lockstep::data
