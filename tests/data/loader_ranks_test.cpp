// The loaders of several ranks, as threads of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "data/loader.h"
#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"
#include "tests/data/dataset_fixture.h"
#include "tests/data/thread_host.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t samples = 1003;
// Rows of 16 KiB, so that a block has 64 of them: eight blocks and a short one, in groups of two.
constexpr std::size_t wide_bytes = 16384;
constexpr std::int64_t wide_samples = 8 * 64 + 19;
constexpr std::size_t four_blocks = 4 * 64 * (wide_bytes + sizeof(std::int64_t));

// Batches of `steps` steps, put together from all ranks' shares.
using Order = std::vector<std::vector<std::int64_t>>;

class LoaderRanksTest : public DatasetTest {
 protected:
  static Order read(const std::string& file, int world_size, LoaderOptions options,
                    std::int64_t steps) {
    ThreadHost host(world_size);
    Order order(static_cast<std::size_t>(steps));
    std::mutex mutex;
    host.run([&](int rank, ThreadHost::Storage& storage) {
      const auto context = device::make_cpu_context();
      LoaderOptions mine = options;
      mine.rank = rank;
      mine.world_size = world_size;
      Loader loader(*context, file, "train", mine, storage);
      for (std::int64_t step = 0; step < steps; ++step) {
        const Batch batch = loader.next();
        const auto values = batch.features.elements<float>();
        for (std::size_t row = 0; row < batch.indices.size(); ++row) {
          const std::size_t width = values.size() / batch.indices.size();
          EXPECT_EQ(tag_of(std::span<const float>(values.subspan(row * width, width))),
                    batch.indices[row]);
        }
        const std::lock_guard guard(mutex);
        auto& whole = order[static_cast<std::size_t>(step)];
        whole.resize(static_cast<std::size_t>(batch.global_rows), -1);
        std::ranges::copy(batch.indices, whole.begin() + batch.first_row);
      }
    });
    return order;
  }
};

TEST_F(LoaderRanksTest, EveryWorldReadsTheSameBatches) {  // DATA-2, DATA-4
  const std::string file = write_tagged("tagged.h5", samples, 0, 10);
  LoaderOptions options;
  options.batch_size = 64;
  options.seed = 5;
  const Order one = read(file, 1, options, 40);
  for (int world_size = 2; world_size <= 9; ++world_size) {
    options.prefetch = world_size % 3;
    EXPECT_EQ(read(file, world_size, options, 40), one) << world_size;
  }
  std::vector<std::int64_t> epoch;
  for (std::size_t step = 0; step < 16; ++step) {
    epoch.insert(epoch.end(), one[step].begin(), one[step].end());
  }
  std::ranges::sort(epoch);
  ASSERT_EQ(epoch.size(), samples);
  for (std::size_t i = 0; i < epoch.size(); ++i) ASSERT_EQ(epoch[i], i);
}

TEST_F(LoaderRanksTest, EveryWorldStreamsTheSameBatches) {
  const std::string file = write_tagged("tagged.h5", wide_samples, 0, 8, wide_bytes);
  LoaderOptions options;
  options.batch_size = 40;
  options.memory_limit = four_blocks;
  const Order one = read(file, 1, options, 30);
  for (const int world_size : {2, 3, 8}) {
    options.prefetch = world_size % 3;
    EXPECT_EQ(read(file, world_size, options, 30), one) << world_size;
  }
}

TEST_F(LoaderRanksTest, FewerSamplesThanWorkers) {  // DATA-1
  const std::string file = write_tagged("tagged.h5", 3);
  LoaderOptions options;
  options.batch_size = 16;
  const Order order = read(file, 8, options, 5);
  EXPECT_EQ(order, read(file, 1, options, 5));
  for (const auto& batch : order) EXPECT_EQ(batch.size(), 3);
}

TEST_F(LoaderRanksTest, ReadsEachBlockOncePerHost) {
  // A worker reads its own blocks only, so damage in one block is noticed by exactly one worker.
  const std::string file = write_tagged("tagged.h5", wide_samples, 0, 8, wide_bytes);
  damage_row(file, 77);

  ThreadHost host(5);
  std::atomic<int> noticed = 0;
  host.run([&](int rank, ThreadHost::Storage& storage) {
    const auto context = device::make_cpu_context();
    LoaderOptions options;
    options.rank = rank;
    options.world_size = 5;
    try {
      Loader loader(*context, file, "train", options, storage);
    } catch (const DataError&) {
      ++noticed;
      storage.barrier();  // let the others go on
    }
  });
  EXPECT_EQ(noticed, 1);
}

TEST_F(LoaderRanksTest, SeeksTogether) {
  const std::string file = write_tagged("tagged.h5", wide_samples, 0, 8, wide_bytes);
  ThreadHost host(3);
  host.run([&](int rank, ThreadHost::Storage& storage) {
    const auto context = device::make_cpu_context();
    LoaderOptions options;
    options.rank = rank;
    options.world_size = 3;
    options.batch_size = 20;
    options.memory_limit = four_blocks;
    Loader loader(*context, file, "train", options, storage);
    for (const std::int64_t to : {20, 3, 0, 26}) {
      loader.seek(to / 5, to);
      std::vector<std::int64_t> first;
      for (std::int64_t i = 0; i < 8; ++i) {
        const Batch batch = loader.next();
        if (i == 0) {
          first.assign(batch.indices.begin(), batch.indices.end());
          EXPECT_EQ(batch.step_in_epoch, to);
        }
      }
      loader.seek(to / 5, to);
      const Batch again = loader.next();
      EXPECT_EQ(first, std::vector(again.indices.begin(), again.indices.end()));
    }
  });
}

TEST_F(LoaderRanksTest, OneRanksErrorStaysWithItAndOthersEnd) {  // HANG-2, in reading
  const std::string file = write_tagged("tagged.h5", wide_samples, 0, 8, wide_bytes);
  for (const int prefetch : {0, 2}) {
    ThreadHost host(4);
    std::atomic<int> aborted = 0;
    host.run([&](int rank, ThreadHost::Storage& storage) {
      const auto context = device::make_cpu_context();
      LoaderOptions options;
      options.rank = rank;
      options.world_size = 4;
      options.batch_size = 20;
      options.memory_limit = four_blocks;
      options.prefetch = prefetch;
      options.before_read = [rank](std::int64_t step) {
        if (rank == 2 && step == 7) throw std::out_of_range("planted");
      };
      Loader loader(*context, file, "train", options, storage);
      try {
        for (int step = 0; step < 60; ++step) loader.next();
        ADD_FAILURE() << "no error";
      } catch (const std::out_of_range&) {
        EXPECT_EQ(rank, 2);
        host.abort();
      } catch (const RankError&) {
        EXPECT_NE(rank, 2);
        ++aborted;
      }
    });
    EXPECT_EQ(aborted, 3);
  }
}

TEST_F(LoaderRanksTest, AWorkerThatStandsStillIsNamed) {
  const std::string file = write_tagged("tagged.h5", wide_samples, 0, 8, wide_bytes);
  ThreadHost host(3);
  std::atomic<int> left = 2;
  host.run([&](int rank, ThreadHost::Storage& storage) {
    const auto context = device::make_cpu_context();
    LoaderOptions options;
    options.rank = rank;
    options.world_size = 3;
    options.batch_size = 20;
    options.memory_limit = four_blocks;
    options.timeout = std::chrono::milliseconds(1000);
    Loader loader(*context, file, "train", options, storage);
    loader.seek(0, 0);
    if (rank == 1) {  // takes no batch
      while (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    try {
      for (int step = 0; step < 60; ++step) loader.next();
      ADD_FAILURE() << "no error";
    } catch (const RankError& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_THAT(error.what(), testing::HasSubstr("worker 1 of this host has not read"));
    }
    --left;
  });
}

TEST_F(LoaderRanksTest, EndingNeverWaitsForOthers) {
  const std::string file = write_tagged("tagged.h5", wide_samples, 0, 8, wide_bytes);
  for (int steps = 0; steps < 8; ++steps) {
    ThreadHost host(4);
    host.run([&](int rank, ThreadHost::Storage& storage) {
      const auto context = device::make_cpu_context();
      LoaderOptions options;
      options.rank = rank;
      options.world_size = 4;
      options.batch_size = 40;
      options.memory_limit = four_blocks;
      options.prefetch = rank;  // how far ahead each thread is differs
      Loader loader(*context, file, "train", options, storage);
      loader.seek(0, 0);
      for (int i = 0; i < steps; ++i) loader.next();
    });
  }
}

}  // namespace
}  // namespace lockstep::data
