// ring+nccl where something fails: no rank may take for good what another host's failure made
// wrong, and all hear the first cause. On emulated GPUs NCCL is a test double, which lets ranks go
// on with garbage where one of them has given up.
#include "comm/hierarchical/ring_nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "comm/store/store.h"
#include "framework/device/cuda/cuda_context.h"
#include "tests/comm/ring/cuda/cuda_ranks.h"

namespace lockstep::comm {
namespace {

using ring::cuda::OnGpu;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Two hosts of two ranks: 0 and 1, 2 and 3.
const HostMap two_by_two({"a", "a", "b", "b"});

// Few threads, and slots for the larger of the sizes below.
constexpr ring::cuda::Shape shape = {
    .channels = 2, .threads = 32, .slot_bytes = 32 << 10, .packs = 32};

class HostRank {
 public:
  HostRank(std::unique_ptr<Group> host, Store& store, int rank, const CommunicatorOptions& options)
      : host_(host.get()),
        context_(device::make_cuda_context(rank, rank)),
        stream_(context_->make_stream("communication")),
        communicator_(make_ring_nccl_communicator(std::move(host), two_by_two, store,
                                                  {.rank = rank,
                                                   .size = 4,
                                                   .device = {DeviceKind::cuda, rank},
                                                   .prefix = "comm",
                                                   .interface = std::nullopt,
                                                   .start_timeout = seconds(30)},
                                                  options, shape)) {}

  int index() const { return communicator_->rank(); }
  Communicator& communicator() { return *communicator_; }
  Stream& stream() { return *stream_; }
  Context& context() { return *context_; }
  Group& host() { return *host_; }  // of the ring inside; as long as the communicator

 private:
  Group* host_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Communicator> communicator_;
};

using OptionsOf = std::function<CommunicatorOptions(int rank)>;

CommunicatorOptions patient(int) {
  return {.timeout = seconds(60)};
}

// Runs `body` on every rank and fails the test for what a rank throws.
void run_hosts(const std::function<void(HostRank&)>& body, const OptionsOf& options = patient) {
  const auto store = make_memory_store();
  std::vector<std::unique_ptr<Group>> groups;
  for (int host = 0; host < 2; ++host)
    for (auto& group : make_thread_groups(2)) groups.push_back(std::move(group));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      try {
        HostRank own(std::move(groups[static_cast<std::size_t>(rank)]), *store, rank,
                     options(rank));
        try {
          body(own);
        } catch (const std::exception& error) {
          own.communicator().abort(rank, error.what());
          throw;
        }
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

struct Seen {
  int rank = -2;
  std::string what = "no error";
};

Seen failure_of(const Work& work) {
  try {
    work.wait();
  } catch (const RankError& error) {
    return {error.rank(), error.what()};
  }
  return {};
}

std::vector<float> ones(std::size_t count) {
  return std::vector<float>(count, 1.0f);
}

class RingNccl : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_nccl()) GTEST_SKIP() << "NCCL is not in this build";
    if (device::cuda_devices().count < 4) GTEST_SKIP() << "four GPUs are needed";
  }
};
// In one piece, and in two.
constexpr std::size_t small = 501, large = (std::size_t{1} << 19) + 3;
class RingNcclSizes : public RingNccl, public testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, RingNcclSizes, testing::Values(small, large),
                         [](const auto& test) { return test.param == small ? "one" : "two"; });

TEST_P(RingNcclSizes, SumsOverAllHosts) {
  run_hosts([](HostRank& rank) {
    const OnGpu<float> data(rank.context(), ones(GetParam()));
    for (int call = 0; call < 2; ++call)
      rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag).wait();
    EXPECT_EQ(data.values(), std::vector<float>(GetParam(), 16.0f));
  });
}

// The stages behind it are enqueued already: NCCL carries on with what the ring has not summed.
TEST_P(RingNcclSizes, AStageInsideOneHostThatFailsFailsOnAllHosts) {
  run_hosts([](HostRank& rank) {
    const OnGpu<float> data(rank.context(), ones(GetParam()));
    const auto reduce = [&] {
      return rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag);
    };
    reduce().wait();
    if (rank.index() == 1) std::this_thread::sleep_for(milliseconds(50));
    // Only this host's ring hears of it; its other rank waits in a kernel, and has enqueued the
    // rest.
    if (rank.index() == 1) rank.host().abort(1, "rank 1 has lost its head");
    const Seen seen = failure_of(reduce());
    EXPECT_THAT(seen.what, HasSubstr("rank 1 has lost its head")) << rank.index();
    EXPECT_EQ(seen.rank, 1) << rank.index();
    EXPECT_EQ(failure_of(reduce()).what, seen.what);
  });
}

TEST_F(RingNccl, ARankThatDoesNotComeIsNamedOnAllHosts) {
  run_hosts(
      [](HostRank& rank) {
        const OnGpu<float> data(rank.context(), ones(small));
        const auto reduce = [&] {
          return rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), 7);
        };
        reduce().wait();
        if (rank.index() == 3) return std::this_thread::sleep_for(seconds(8));
        const Seen seen = failure_of(reduce());
        EXPECT_EQ(seen.rank, 3) << rank.index() << ": " << seen.what;
        EXPECT_THAT(seen.what, AllOf(HasSubstr("all_reduce number 1"), HasSubstr("bucket 7"),
                                     HasSubstr("did not arrive"), HasSubstr("ranks 2, 3")));
      },
      [](int) { return CommunicatorOptions{.timeout = seconds(3)}; });
}

// A host that comes when NCCL of the other has been ended: its own goes on, with garbage.
TEST_P(RingNcclSizes, NobodyTakesWhatNcclLeftWhenItWasEnded) {
  run_hosts(
      [](HostRank& rank) {
        const OnGpu<float> data(rank.context(), ones(GetParam()));
        const auto reduce = [&] {
          return rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag);
        };
        reduce().wait();
        if (rank.index() >= 2) std::this_thread::sleep_for(milliseconds(1105));
        EXPECT_NE(failure_of(reduce()).rank, -2) << rank.index() << " has not failed";
      },
      [](int rank) { return CommunicatorOptions{.timeout = seconds(rank < 2 ? 1 : 60)}; });
}

TEST_F(RingNccl, AnAbortEndsAllWaitsOfAllHosts) {
  run_hosts([](HostRank& rank) {
    const OnGpu<float> data(rank.context(), ones(small));
    if (rank.index() == 2) {
      std::this_thread::sleep_for(milliseconds(100));
      rank.communicator().abort(2, "rank 2 has lost its data");
    }
    const Seen seen = failure_of(
        rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag));
    EXPECT_EQ(seen.rank, 2);
    EXPECT_EQ(seen.what, "rank 2 has lost its data");
  });
}

TEST_F(RingNccl, OtherCollectivesFailOnAllHostsToo) {
  using Call = std::function<Work(HostRank&, Range)>;
  const std::vector<Call> calls = {
      [](HostRank& r, Range d) {
        return r.communicator().reduce(d, ReduceOp::max, 3, r.stream(), no_tag);
      },
      [](HostRank& r, Range d) { return r.communicator().broadcast(d, 0, r.stream(), no_tag); },
      [](HostRank& r, Range d) {
        return r.communicator().reduce_scatter(d, ReduceOp::sum, r.stream(), no_tag);
      },
      [](HostRank& r, Range d) { return r.communicator().all_gather(d, r.stream(), no_tag); },
      [](HostRank& r, Range) { return r.communicator().barrier(r.stream()); }};
  for (const Call& call : calls)
    run_hosts([&](HostRank& rank) {
      const OnGpu<float> data(rank.context(), ones(small));
      if (rank.index() == 0) rank.host().abort(0, "rank 0 has lost its head");
      const Seen seen = failure_of(call(rank, data.range()));
      EXPECT_THAT(seen.what, HasSubstr("rank 0 has lost its head")) << rank.index();
    });
}

TEST_F(RingNccl, RanksOfOneHostThatDisagreeAreHeardOfOnAllHosts) {
  run_hosts([](HostRank& rank) {
    const OnGpu<float> data(rank.context(), ones(small));
    const Seen seen = failure_of(rank.communicator().all_reduce(
        data.range(), ReduceOp::sum, rank.stream(), rank.index() == 0 ? 3 : 4));
    EXPECT_THAT(seen.what,
                AllOf(HasSubstr("disagree"), HasSubstr("bucket 3"), HasSubstr("bucket 4")))
        << rank.index();
  });
}

TEST(RingNcclHosts, NeedAsManyRanksEach) {
  if (!has_nccl()) GTEST_SKIP() << "NCCL is not in this build";
  const auto store = make_memory_store();
  try {
    make_ring_nccl_communicator(nullptr, HostMap({"a", "a", "b"}), *store, {}, {});
    ADD_FAILURE() << "they do not";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("2 hosts of 1 to 2 ranks"), HasSubstr("same number")));
  }
}

}  // namespace
}  // namespace lockstep::comm
