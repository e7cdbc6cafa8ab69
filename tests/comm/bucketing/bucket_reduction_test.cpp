#include "comm/bucketing/bucket_reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "comm/ring/ring.h"
#include "framework/device/cpu/cpu_context.h"

namespace lockstep::comm {
namespace {

using testing::Each;
using testing::HasSubstr;

void run_ranks(int size, const CommunicatorOptions& options,
               const std::function<void(Communicator&, Stream&)>& body) {
  auto groups = make_thread_groups(size);
  std::vector<std::thread> threads;
  for (auto& group : groups)
    threads.emplace_back([&, mine = std::move(group)]() mutable {
      const auto communicator = make_ring_communicator(std::move(mine), options);
      const auto stream = device::make_thread_stream("communication");
      body(*communicator, *stream);
    });
  for (auto& thread : threads) thread.join();
}

// A user's own: sends whole numbers as bytes, half the ranks' sums in a second collective.
class InBytes final : public BucketReduction {
 public:
  InBytes(Communicator& communicator, std::int64_t largest)
      : communicator_(communicator), staging_(static_cast<std::size_t>(largest)) {}
  std::string_view name() const override { return "bytes"; }
  Started reduce(std::size_t bucket, Range gradients, Stream& stream) override {
    const auto tag = static_cast<Tag>(bucket);
    const std::span values(static_cast<float*>(gradients.data),
                           static_cast<std::size_t>(gradients.count));
    const std::span bytes = std::span(staging_).first(values.size());
    stream.enqueue([values, bytes] {
      std::transform(values.begin(), values.end(), bytes.begin(),
                     [](float value) { return static_cast<std::uint8_t>(value); });
    });
    const auto half = bytes.size() / 2;
    std::vector<Work> parts;
    for (const std::span part : {bytes.first(half), bytes.subspan(half)})
      parts.push_back(communicator_.all_reduce(range_of(part), ReduceOp::sum, stream, tag));
    stream.enqueue([values, bytes] { std::copy(bytes.begin(), bytes.end(), values.begin()); });
    return {join(std::move(parts), stream), bytes.size()};
  }

 private:
  Communicator& communicator_;
  std::vector<std::uint8_t> staging_;
};

TEST(BucketReduction, MayTakeSeveralSteps) {
  run_ranks(3, {}, [](Communicator& communicator, Stream& stream) {
    InBytes reduction(communicator, 100);
    std::vector<float> gradients(77, static_cast<float>(communicator.rank() + 1));
    const auto started = reduction.reduce(5, range_of(std::span(gradients)), stream);
    const Work& work = started.work;
    work.wait();
    EXPECT_EQ(started.bytes, 77u);
    EXPECT_THAT(gradients, Each(6.0f));
    EXPECT_LE(work.times().start, work.times().end);
    EXPECT_NE(work.times().start, device::Clock::time_point());
  });
}

TEST(BucketReduction, FailsWithWhatItsCollectivesFailWith) {
  run_ranks(2, {.timeout = std::chrono::seconds(5)},
            [](Communicator& communicator, Stream& stream) {
              InBytes reduction(communicator, 100);
              std::vector<float> gradients(communicator.rank() == 0 ? 20 : 30, 1.0f);
              const Work work = reduction.reduce(5, range_of(std::span(gradients)), stream).work;
              try {
                work.wait();
                ADD_FAILURE() << "ranks that disagree went on";
              } catch (const RankError& error) {
                EXPECT_THAT(error.what(), HasSubstr("bucket 5"));
              }
            });
}

}  // namespace
}  // namespace lockstep::comm
