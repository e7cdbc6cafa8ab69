#include "comm/bucketing/gradient_averager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "comm/ring/ring.h"
#include "framework/base/random.h"
#include "framework/device/cpu/cpu_context.h"

namespace lockstep::comm {

namespace {

using testing::ElementsAre;

// Records the collectives that it is asked for, and does nothing else.
class RecordingCommunicator final : public Communicator {
 public:
  struct Call {
    const void* data;
    std::int64_t count;
    Tag tag;
    const Stream* stream;
  };
  std::vector<Call> calls;

  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string_view backend() const override { return "recording"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Work all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) override {
    EXPECT_EQ(op, ReduceOp::sum);
    calls.push_back({data.data, data.count, tag, &stream});
    return {};
  }
  Work reduce(Range, ReduceOp, int, Stream&, Tag) override { return unexpected(); }
  Work reduce_scatter(Range, ReduceOp, Stream&, Tag) override { return unexpected(); }
  Work all_gather(Range, Stream&, Tag) override { return unexpected(); }
  Work broadcast(Range, int, Stream&, Tag) override { return unexpected(); }
  Work all_to_all(Range, Range, Stream&, Tag) override { return unexpected(); }
  Work barrier(Stream&) override { return unexpected(); }
  std::unique_ptr<Communicator> split(int, int) override { return nullptr; }
  std::shared_ptr<SymmetricBuffer> addressable_memory(std::size_t) override { return nullptr; }
  void abort(int, const std::string&) override {}

 private:
  static Work unexpected() {
    ADD_FAILURE() << "only all_reduce is expected";
    return {};
  }
  Capabilities capabilities_;
};

// Four buckets of 16 elements over gradients [0, 20), [20, 44), [48, 64), with padding between the
// last two.
class AveragerTest : public testing::Test {
 protected:
  AveragerTest() { averager().begin(); }

  GradientAverager& averager(bool overlap = true) {
    if (!averager_)
      averager_ = std::make_unique<GradientAverager>(
          reduction, std::vector<SegmentLayout>{segment}, plan,
          std::vector<Range>{range_of(std::span(data))}, *compute, *communication, overlap);
    return *averager_;
  }
  std::vector<Tag> launched() const {
    std::vector<Tag> tags;
    for (const auto& call : communicator.calls) tags.push_back(call.tag);
    return tags;
  }

  const SegmentLayout segment = {
      .dtype = DType::float32, .count = 64, .gradients = {{0, 20}, {20, 44}, {48, 64}}};
  const BucketPlan plan = plan_buckets({segment}, {.bucket_bytes = 128, .first_bucket_bytes = 128});
  std::vector<float> data = std::vector<float>(64);
  RecordingCommunicator communicator;
  AllReduction reduction = AllReduction(communicator);
  std::unique_ptr<Stream> compute = device::make_inline_stream();
  std::unique_ptr<Stream> communication = device::make_thread_stream("communication");
  std::unique_ptr<GradientAverager> averager_;
};

TEST_F(AveragerTest, LaunchesABucketAsSoonAsItIsComplete) {
  averager().ready(0, 0, 15);
  EXPECT_THAT(launched(), ElementsAre());
  averager().ready(0, 15, 31);
  EXPECT_THAT(launched(), ElementsAre());
  averager().ready(0, 31, 44);
  EXPECT_THAT(launched(), ElementsAre(0));
  EXPECT_EQ(communicator.calls[0].data, data.data());
  EXPECT_EQ(communicator.calls[0].count, plan.buckets[0].count());
  EXPECT_EQ(communicator.calls[0].stream, communication.get());
}

TEST_F(AveragerTest, LaunchesInTheOrderOfTheBucketsWhateverTheOrderOfReadiness) {
  averager().ready(0, 48, 64);
  averager().ready(0, 20, 44);
  EXPECT_THAT(launched(), ElementsAre());
  averager().ready(0, 0, 20);
  std::vector<Tag> all(plan.buckets.size());
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(launched(), all);
  EXPECT_EQ(averager().reductions_this_step(), plan.buckets.size());
}

TEST_F(AveragerTest, PaddingMayBeAnnouncedWithGradients) {
  averager().ready(0, 0, 64);
  EXPECT_EQ(launched().size(), plan.buckets.size());
  EXPECT_THROW(averager().ready(0, 44, 48), UsageError);
}

TEST_F(AveragerTest, FinishLaunchesWhatIsLeft) {
  averager().ready(0, 0, 20);
  averager().finish();
  EXPECT_EQ(launched().size(), plan.buckets.size());
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) averager().wait(b);
  std::uint64_t bytes = 0;
  for (const Bucket& bucket : plan.buckets) bytes += bucket.bytes();
  EXPECT_EQ(averager().bytes_this_step(), bytes);
}

TEST_F(AveragerTest, CountsAnewInEveryStep) {
  for (int step = 0; step < 10; ++step) {
    communicator.calls.clear();
    averager().begin();
    EXPECT_EQ(averager().reductions_this_step(), 0u);
    EXPECT_EQ(averager().bytes_this_step(), 0u);
    averager().ready(0, 20, 64);
    averager().ready(0, 0, 20);
    averager().finish();
    EXPECT_EQ(averager().reductions_this_step(), plan.buckets.size());
    EXPECT_EQ(launched().size(), plan.buckets.size());
  }
}

TEST_F(AveragerTest, WithoutOverlapNothingStartsBeforeFinish) {
  averager_.reset();
  averager(false).begin();
  averager().ready(0, 0, 64);
  EXPECT_THAT(launched(), ElementsAre());
  averager().finish();
  EXPECT_EQ(launched().size(), plan.buckets.size());
  for (const auto& call : communicator.calls) EXPECT_EQ(call.stream, compute.get());
}

TEST_F(AveragerTest, ElementsAnnouncedTwiceAreRefused) {
  averager().ready(0, 4, 8);
  EXPECT_THROW(averager().ready(0, 4, 8), UsageError);
  EXPECT_THROW(averager().ready(0, 0, 5), UsageError);
  EXPECT_THROW(averager().ready(0, 7, 20), UsageError);
  EXPECT_THROW(averager().ready(0, 5, 6), UsageError);
  averager().ready(0, 8, 12);
  averager().ready(0, 0, 4);
  EXPECT_THROW(averager().ready(0, 11, 12), UsageError);
  averager().begin();
  averager().ready(0, 4, 8);
}

TEST_F(AveragerTest, WhatMakesNoSenseIsRefused) {
  EXPECT_THROW(averager().ready(1, 0, 1), UsageError);
  EXPECT_THROW(averager().ready(0, -1, 1), UsageError);
  EXPECT_THROW(averager().ready(0, 60, 65), UsageError);
  EXPECT_THROW(averager().ready(0, 2, 1), UsageError);
  EXPECT_THROW(averager().wait(0), UsageError);
  averager().finish();
  EXPECT_THROW(averager().ready(0, 0, 1), UsageError);
  EXPECT_THROW(averager().finish(), UsageError);
  const auto make = [&](Range flat) {
    GradientAverager(reduction, {segment}, plan, {flat}, *compute, *communication, true);
  };
  EXPECT_THROW(make({data.data(), 63, DType::float32}), UsageError);
  EXPECT_THROW(make({data.data(), 64, DType::int32}), UsageError);
}

// Real ranks: gradients are written, announced in pieces and in any order, and summed over all
// ranks, in many steps on the same memory.
TEST(GradientAverager, SumsOverRanksWhilePiecesComeInAnyOrder) {
  constexpr int world = 4;
  constexpr std::int64_t count = 30'000;
  auto groups = make_thread_groups(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator =
          make_ring_communicator(std::move(groups[static_cast<std::size_t>(rank)]), {});
      const auto compute = device::make_inline_stream();
      const auto communication = device::make_thread_stream("communication");
      const SegmentLayout segment = {.count = count,
                                     .gradients = {{0, 1000}, {1024, 20'000}, {20'000, count}}};
      const auto memory = communicator->addressable_memory(count * sizeof(float));
      auto* data = reinterpret_cast<float*>(memory->local().data());
      AllReduction reduction(*communicator);
      GradientAverager averager(
          reduction, {segment},
          plan_buckets({segment}, {.bucket_bytes = 8192, .first_bucket_bytes = 4096}),
          {{data, count, DType::float32}}, *compute, *communication, true);
      const base::RandomStream random(static_cast<std::uint64_t>(rank), "pieces");
      std::uint64_t draw = 0;
      for (int step = 0; step < 20; ++step) {
        averager.begin();
        // The same pieces on every rank, in an order of its own.
        std::vector<Slice> pieces;
        for (int piece = 0; piece < 50; ++piece) pieces.push_back(slice_of(count, piece, 50));
        for (std::size_t i = pieces.size(); i > 1; --i)
          std::swap(pieces[i - 1], pieces[random.below(i, draw++)]);
        for (const Slice& piece : pieces) {
          for (std::int64_t i = piece.begin; i < piece.end; ++i)
            data[i] = static_cast<float>((i + step) % 512 + rank);
          averager.ready(0, piece.begin, piece.end);
        }
        averager.finish();
        for (std::size_t b = 0; b < averager.plan().buckets.size(); ++b) {
          averager.wait(b);
          const Bucket& bucket = averager.plan().buckets[b];
          for (std::int64_t i = bucket.begin; i < bucket.end; ++i)
            ASSERT_EQ(data[i],
                      static_cast<float>((i + step) % 512 * world + world * (world - 1) / 2))
                << "step " << step << " element " << i;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

}  // namespace lockstep::comm
