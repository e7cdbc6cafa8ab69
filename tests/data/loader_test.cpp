// One rank's loader, in memory and streamed.
#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>

#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"
#include "tests/data/allocation_count.h"
#include "tests/data/dataset_fixture.h"

namespace lockstep::data {
namespace {

using testing::Each;
using testing::Ge;
using testing::HasSubstr;

constexpr std::int64_t samples = 1003;
// Streamed sets have rows of 16 KiB, so that a block has 64 of them: six blocks and a short one, in
// groups of two.
constexpr std::size_t wide_bytes = 16384;
constexpr std::int64_t wide_samples = 6 * 64 + 19;
constexpr std::size_t four_blocks = 4 * 64 * (wide_bytes + sizeof(std::int64_t));

struct Mode {
  bool streamed;
  int prefetch;
};

class LoaderTest : public DatasetTest, public testing::WithParamInterface<Mode> {
 protected:
  std::string write() const {
    return GetParam().streamed ? write_tagged("tagged.h5", wide_samples, 11, 8, wide_bytes)
                               : write_tagged("tagged.h5", samples, 11, 10);
  }
  LoaderOptions options() const {
    LoaderOptions options;
    options.batch_size = GetParam().streamed ? 13 : 64;
    options.prefetch = GetParam().prefetch;
    options.seed = 3;
    if (GetParam().streamed) options.memory_limit = four_blocks;
    return options;
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
  PrivateStorage storage_;
};

INSTANTIATE_TEST_SUITE_P(Modes, LoaderTest,
                         testing::Values(Mode{false, 0}, Mode{false, 2}, Mode{true, 0},
                                         Mode{true, 1}, Mode{true, 3}),
                         [](const auto& mode) {
                           return std::string(mode.param.streamed ? "Streamed" : "InMemory") +
                                  std::to_string(mode.param.prefetch);
                         });

template <class T>
std::int64_t tag_of(const Batch& batch, std::size_t row) {
  const auto values = batch.features.elements<T>();
  const std::size_t width = values.size() / batch.indices.size();
  return data::tag_of(std::span<const T>(values.subspan(row * width, width)));
}

// Checks that a batch holds the rows that it says, and returns which.
std::vector<std::int64_t> indices_of(const Batch& batch) {
  EXPECT_EQ(batch.features.shape()[0], batch.rows);
  EXPECT_EQ(batch.labels.shape(), Shape{batch.rows});
  EXPECT_EQ(batch.indices.size(), static_cast<std::size_t>(batch.rows));
  for (std::size_t row = 0; row < batch.indices.size(); ++row) {
    const std::int64_t index = batch.indices[row];
    EXPECT_EQ(tag_of<float>(batch, row), index);
    EXPECT_EQ(batch.labels.elements<std::int64_t>()[row], index % tagged_classes);
  }
  return {batch.indices.begin(), batch.indices.end()};
}

std::vector<std::int64_t> read_epoch(Loader& loader) {
  std::vector<std::int64_t> order;
  for (std::int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const Batch batch = loader.next();
    EXPECT_EQ(batch.step_in_epoch, step);
    EXPECT_EQ(batch.first_row, 0);
    EXPECT_EQ(batch.global_rows, batch.rows);
    const auto indices = indices_of(batch);
    order.insert(order.end(), indices.begin(), indices.end());
  }
  return order;
}

bool is_permutation_of_all(std::vector<std::int64_t> order) {
  std::ranges::sort(order);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

TEST_P(LoaderTest, ShufflesDifferentlyEveryEpochAndTheSameEveryRun) {  // DATA-2
  const std::string file = write();
  Loader loader(*context_, file, "train", options(), storage_);
  EXPECT_EQ(loader.in_memory(), !GetParam().streamed);
  std::vector<std::vector<std::int64_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    epochs.push_back(read_epoch(loader));
    EXPECT_EQ(epochs.back().size(), loader.samples());
    EXPECT_TRUE(is_permutation_of_all(epochs.back()));
    EXPECT_FALSE(std::ranges::is_sorted(epochs.back()));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);

  Loader again(*context_, file, "train", options(), storage_);
  for (int epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(read_epoch(again), epochs[static_cast<std::size_t>(epoch)]);
}

TEST_P(LoaderTest, KeepsFileOrderWithoutShuffle) {
  LoaderOptions plain = options();
  plain.shuffle = false;
  Loader loader(*context_, write(), "train", plain, storage_);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto order = read_epoch(loader);
    EXPECT_TRUE(std::ranges::is_sorted(order));
    EXPECT_TRUE(is_permutation_of_all(order));
  }
}

TEST_P(LoaderTest, SeeksAnywhere) {
  const std::string file = write();
  Loader straight(*context_, file, "train", options(), storage_);
  std::vector<std::vector<std::int64_t>> batches;
  const std::int64_t steps = straight.steps_per_epoch();
  for (std::int64_t i = 0; i < 2 * steps; ++i) batches.push_back(indices_of(straight.next()));

  Loader loader(*context_, file, "train", options(), storage_);
  for (const std::int64_t to :
       {2 * steps - 1, std::int64_t{0}, steps / 2, steps, std::int64_t{3}}) {
    loader.seek(to / steps, to % steps);
    for (std::int64_t i = to; i < std::min(to + 4, 2 * steps); ++i) {
      const Batch batch = loader.next();
      EXPECT_EQ(batch.epoch, i / steps);
      EXPECT_EQ(batch.step_in_epoch, i % steps);
      EXPECT_EQ(indices_of(batch), batches[static_cast<std::size_t>(i)]) << "from " << to;
    }
  }
  EXPECT_THROW(loader.seek(0, steps), UsageError);
  EXPECT_THROW(loader.seek(-1, 0), UsageError);
}

TEST_P(LoaderTest, DropsAnUnevenEnd) {
  LoaderOptions dropping = options();
  dropping.drop_last = true;
  Loader loader(*context_, write(), "train", dropping, storage_);
  EXPECT_EQ(loader.steps_per_epoch(), loader.samples() / dropping.batch_size);
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto order = read_epoch(loader);
    EXPECT_EQ(order.size(), loader.steps_per_epoch() * dropping.batch_size);
    std::ranges::sort(order);
    EXPECT_EQ(std::ranges::adjacent_find(order), order.end());
  }
}

TEST_P(LoaderTest, TakesBatchesLargerThanGroupsAndThanTheSet) {
  LoaderOptions large = options();
  const std::string file = write();
  for (const std::int64_t batch_size : {std::int64_t{300}, std::int64_t{1} << 40}) {
    large.batch_size = batch_size;
    Loader loader(*context_, file, "train", large, storage_);
    for (int epoch = 0; epoch < 2; ++epoch) EXPECT_TRUE(is_permutation_of_all(read_epoch(loader)));
  }
}

TEST_P(LoaderTest, GivesDoubles) {
  LoaderOptions doubles = options();
  doubles.dtype = DType::float64;
  Loader loader(*context_, write(), "train", doubles, storage_);
  const Batch batch = loader.next();
  EXPECT_EQ(batch.features.dtype(), DType::float64);
  for (std::size_t row = 0; row < batch.indices.size(); ++row) {
    EXPECT_EQ(tag_of<double>(batch, row), batch.indices[row]);
  }
}

TEST_P(LoaderTest, LeavesNormalisingToOthers) {
  LoaderOptions options = this->options();
  int calls = 0;
  options.normalize = [&](const Tensor& x, const Tensor& factor, const Tensor& offset,
                          const Tensor& out) {
    ++calls;
    ASSERT_EQ(x.dtype(), DType::uint8);
    ASSERT_EQ(x.shape(), out.shape());
    const Shape channels{x.shape()[1]};
    ASSERT_EQ(factor.shape(), channels);
    ASSERT_EQ(offset.shape(), channels);
    const auto stored = x.elements<std::uint8_t>();
    const auto factors = factor.elements<float>(), offsets = offset.elements<float>();
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const std::size_t channel = i / static_cast<std::size_t>(x.shape()[2]) % factors.size();
      out.elements<float>()[i] =
          static_cast<float>(stored[i]) * factors[channel] + offsets[channel];
    }
  };
  const std::string file = write();
  Loader loader(*context_, file, "train", options, storage_);
  Loader usual(*context_, file, "train", this->options(), storage_);
  for (int step = 0; step < 5; ++step) {
    const Batch expected = usual.next(), batch = loader.next();
    EXPECT_EQ(indices_of(batch), indices_of(expected));
    EXPECT_EQ(batch.features.to_vector<float>(), expected.features.to_vector<float>());
  }
  EXPECT_EQ(calls, 5);
}

TEST_P(LoaderTest, UsesItsMemoryAgain) {
  Loader loader(*context_, write(), "train", options(), storage_);
  loader.next();
  const auto before = context_->allocator().statistics().requests;
  std::vector<const void*> addresses;
  for (int step = 0; step < 20; ++step) addresses.push_back(loader.next().features.data());
  EXPECT_EQ(context_->allocator().statistics().requests, before);
  std::ranges::sort(addresses);
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  EXPECT_LE(addresses.size(), static_cast<std::size_t>(GetParam().prefetch) + 1);
}

TEST_P(LoaderTest, LeavesTheBatchAloneUntilTheNextOne) {
  Loader loader(*context_, write(), "train", options(), storage_);
  for (int step = 0; step < 10; ++step) {
    const Batch batch = loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    indices_of(batch);
  }
}

TEST_P(LoaderTest, GivesAnErrorInThePlaceOfItsBatch) {
  LoaderOptions faulty = options();
  faulty.before_read = [](std::int64_t step) {
    if (step == 5) throw std::out_of_range("planted");
  };
  Loader loader(*context_, write(), "train", faulty, storage_);
  for (int step = 0; step < 5; ++step) indices_of(loader.next());
  EXPECT_THROW(loader.next(), std::out_of_range);
  EXPECT_THROW(loader.next(), std::out_of_range);
  loader.seek(0, 6);
  EXPECT_EQ(loader.next().step_in_epoch, 6);
}

TEST_P(LoaderTest, EndsAtAnyMoment) {
  const std::string file = write();
  for (int step = 0; step < 8; ++step) {
    Loader loader(*context_, file, "train", options(), storage_);
    if (step == 7) loader.seek(0, 3);
    for (int i = 0; i < step % 7; ++i) loader.next();
  }
  LoaderOptions faulty = options();
  faulty.before_read = [](std::int64_t) { throw std::out_of_range("planted"); };
  Loader loader(*context_, file, "train", faulty, storage_);
  loader.seek(0, 0);
}

TEST_P(LoaderTest, CountsStepsForTheHook) {
  LoaderOptions counting = options();
  std::atomic<std::int64_t> last = -1;
  std::atomic<bool> in_order = true;
  counting.before_read = [&](std::int64_t step) { in_order = in_order && step == ++last; };
  Loader loader(*context_, write(), "train", counting, storage_);
  for (std::int64_t i = 0; i < loader.steps_per_epoch() + 2; ++i) loader.next();
  EXPECT_TRUE(in_order);
  EXPECT_GE(last, loader.steps_per_epoch() + 1);
  EXPECT_LE(last, loader.steps_per_epoch() + 1 + GetParam().prefetch);
}

TEST_P(LoaderTest, NoticesDamageInARow) {
  const std::string file = write();
  damage_row(file, 17);
  const auto read_all = [&](const LoaderOptions& given) {
    Loader loader(*context_, file, "train", given, storage_);
    for (std::int64_t i = 0; i < loader.steps_per_epoch(); ++i) loader.next();
  };
  try {
    read_all(options());
    FAIL() << "the damage was not noticed";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().streamed ? "/train: rows [16, 24) are damaged"
                                                            : "/train: rows [10, 20) are damaged"));
  }
  LoaderOptions trusting = options();
  trusting.verify = false;
  EXPECT_NO_THROW(read_all(trusting));
}

class OneLoaderTest : public DatasetTest {
 protected:
  template <class ErrorType>
  void expect_refused(const std::string& file, const std::string& split,
                      const LoaderOptions& options, const std::string& message) {
    try {
      Loader loader(*context_, file, split, options, storage_);
      FAIL() << "not refused";
    } catch (const ErrorType& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
  std::unique_ptr<Context> context_ = device::make_cpu_context();
  PrivateStorage storage_;
};

TEST_F(OneLoaderTest, NoSamplesOrNoSteps) {  // DATA-1
  const std::string file = write_tagged("tagged.h5", 3, 0);
  LoaderOptions options;
  options.batch_size = 8;
  expect_refused<DataError>(file, "test", options, file + ": /test: found 0 samples");
  options.drop_last = true;
  expect_refused<DataError>(file, "train", options,
                            "/train: an epoch has 0 steps: found 3 samples, expected at least the "
                            "batch size of 8");
}

TEST_F(OneLoaderTest, NoSuchSplitOrFile) {
  const std::string file = write_tagged("tagged.h5", 3);
  expect_refused<DataError>(file, "validation", {}, "found splits 'train', 'test', expected");
  expect_refused<DataError>(path("none.h5"), "train", {}, "no such file");
}

TEST_F(OneLoaderTest, TooLittleMemory) {
  LoaderOptions options;
  options.memory_limit = 1000;
  expect_refused<ConfigError>(write_tagged("tagged.h5", 200, 0, 10), "train", options,
                              "memory limit of 1000 bytes, expected at least");
}

TEST_F(OneLoaderTest, OptionsOutOfRange) {
  const std::string file = write_tagged("tagged.h5", 3);
  LoaderOptions options;
  options.rank = 2;
  options.world_size = 2;
  expect_refused<UsageError>(file, "train", options, "rank 2 of 2");
  options = {};
  options.batch_size = 0;
  expect_refused<UsageError>(file, "train", options, "batch size 0");
  options = {};
  options.prefetch = -1;
  expect_refused<UsageError>(file, "train", options, "prefetch -1");
  options = {};
  options.dtype = DType::int32;
  expect_refused<UsageError>(file, "train", options, "int32");
}

TEST_F(OneLoaderTest, AllocatesNothingInTheSteadyState) {
  const std::string file = write_tagged("tagged.h5", samples);
  for (const int prefetch : {0, 2}) {
    LoaderOptions options;
    options.batch_size = 64;
    options.prefetch = prefetch;
    Loader loader(*context_, file, "train", options, storage_);
    for (std::int64_t step = 0; step < loader.steps_per_epoch(); ++step) loader.next();
    const std::int64_t before = allocation_count();
    for (std::int64_t step = 0; step < 2 * loader.steps_per_epoch(); ++step) loader.next();
    EXPECT_EQ(allocation_count(), before);
  }
}

TEST_F(OneLoaderTest, PrefetchHidesReadingAndWaitingIsCounted) {  // PERF-3
  constexpr auto reading = std::chrono::milliseconds(10);
  const std::string file = write_tagged("tagged.h5", 100);
  // What each of some steps waits when the one behind it, if that is prefetched, is being read.
  const auto waits = [&](int prefetch) {
    std::atomic<std::int64_t> being_read = -1;
    LoaderOptions options;
    options.batch_size = 10;
    options.prefetch = prefetch;
    options.before_read = [&](std::int64_t step) {
      being_read = step;
      std::this_thread::sleep_for(reading);
    };
    Loader loader(*context_, file, "train", options, storage_);
    loader.next();
    std::vector<double> seconds;
    for (int step = 1; step <= 8; ++step) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (prefetch > 0 && being_read <= step) {
        std::this_thread::yield();
        if (std::chrono::steady_clock::now() > deadline)
          throw std::runtime_error("nothing is read ahead");
      }
      const double before = loader.wait_seconds();
      loader.next();
      seconds.push_back(loader.wait_seconds() - before);
    }
    return seconds;
  };
  EXPECT_THAT(waits(0), Each(Ge(0.010)));
  // Other programs may hold up some of them.
  EXPECT_LT(std::ranges::min(waits(2)), 0.010);
}

TEST_F(OneLoaderTest, ShuffledEpochCostsAtMostThreeSequentialOnes) {  // PERF-3
  constexpr std::size_t row_bytes = 3136;
  const std::string file = write_tagged("tagged.h5", 10000, 0, 1000, row_bytes);
  // Time of this thread on a processor, which other programs change little; the best of a few runs.
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const auto seconds = [&](bool shuffle) {
    LoaderOptions options;
    options.batch_size = 256;
    options.memory_limit = 4 * 1000 * (row_bytes + sizeof(std::int64_t));
    options.shuffle = shuffle;
    options.prefetch = 0;
    Loader loader(*context_, file, "train", options, storage_);
    EXPECT_FALSE(loader.in_memory());
    const double start = now();
    for (std::int64_t step = 0; step < loader.steps_per_epoch(); ++step) loader.next();
    return now() - start;
  };
  double sequential = seconds(false);
  double shuffled = seconds(true);
  for (int round = 0; round < 8; ++round) {
    sequential = std::min(sequential, seconds(false));
    shuffled = std::min(shuffled, seconds(true));
  }
  EXPECT_LE(shuffled, 3 * sequential);
}

}  // namespace
}  // namespace lockstep::data
