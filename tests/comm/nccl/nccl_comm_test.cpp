// The way of a communicator of NCCL from its id to its end, with a library that stands in for NCCL.
#ifdef LOCKSTEP_FAKE_NCCL

#include "comm/nccl/nccl_comm.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/comm/nccl/fake/fake_nccl.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Function>
Function in_fake(const char* name) {
  void* const library = dlopen(LOCKSTEP_FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function>(dlsym(library, name));
}

class NcclCommTest : public ::testing::Test {
 protected:
  void SetUp() override { before_ = counts(); }
  void TearDown() override { fail(0, 0); }

  static tests::FakeNcclCounts counts() {
    return in_fake<tests::FakeNcclCountsFunction>("fake_nccl_counts")();
  }
  static void fail(int rank, int result) {
    in_fake<tests::FakeNcclFailFunction>("fake_nccl_fail")(rank, result);
  }
  ncclUniqueId make_id() const {
    ncclUniqueId id;
    EXPECT_EQ(library_->get_unique_id(&id), ncclSuccess);
    return id;
  }
  std::unique_ptr<NcclComm> make(int rank, int size, const ncclUniqueId& id,
                                 milliseconds timeout = seconds(20)) const {
    return std::make_unique<NcclComm>(library_, rank, size, id, device::Clock::now() + timeout);
  }

  std::shared_ptr<const NcclLibrary> library_ = NcclLibrary::load(LOCKSTEP_FAKE_NCCL);
  tests::FakeNcclCounts before_{};
};

template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(NcclCommTest, RanksOfOneProcessJoinWithoutBlockingEachOther) {
  const ncclUniqueId id = make_id();
  std::atomic<int> joined = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      if (rank == 2) std::this_thread::sleep_for(milliseconds(50));
      const auto comm = make(rank, 3, id);
      ++joined;
    });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(joined, 0);  // nobody is through before the last has come
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(joined, 3);
  EXPECT_EQ(counts().finalized - before_.finalized, 3);
  EXPECT_EQ(counts().destroyed - before_.destroyed, 3);
  EXPECT_EQ(counts().aborted - before_.aborted, 0);
}

TEST_F(NcclCommTest, ARankThatDoesNotComeEndsTheStartAtTheDeadline) {
  const auto start = device::Clock::now();
  EXPECT_THAT(error_of([&] { make(0, 2, make_id(), milliseconds(100)); }),
              AllOf(HasSubstr("rank 0 of 2 cannot join"), HasSubstr("some rank did not come")));
  EXPECT_LT(device::Clock::now() - start, seconds(5));
  EXPECT_EQ(counts().aborted - before_.aborted, 1);
}

TEST_F(NcclCommTest, CallsAndGroupsAreWaitedForUntilTheLibraryHasTakenThem) {
  const auto comm = make(0, 1, make_id());
  const auto deadline = device::Clock::now() + seconds(20);
  comm->call("ncclAllReduce", deadline, [&](ncclComm_t c) {
    return library_->all_reduce(nullptr, nullptr, 0, ncclBfloat16, ncclAvg, c, nullptr);
  });
  EXPECT_EQ(comm->failure(), std::nullopt);
  comm->call("ncclSend", deadline, [&](ncclComm_t c) {
    library_->group_start();
    library_->send(nullptr, 0, ncclFloat32, 0, c, nullptr);
    library_->recv(nullptr, 0, ncclFloat32, 0, c, nullptr);
    return library_->group_end();
  });
  EXPECT_EQ(counts().calls - before_.calls, 3);
  EXPECT_EQ(counts().calls_grouped - before_.calls_grouped, 2);
}

TEST_F(NcclCommTest, AnErrorWhileACollectiveRunsIsFoundAndAbortEndsIt) {
  const auto comm = make(0, 1, make_id());
  fail(0, ncclRemoteError);
  ASSERT_TRUE(comm->failure());
  EXPECT_THAT(*comm->failure(), HasSubstr("remote process exited"));
  comm->abort();
  comm->abort();
  EXPECT_EQ(counts().aborted - before_.aborted, 1);
  EXPECT_THAT(error_of([&] {
                comm->call("ncclAllReduce", device::Clock::now() + seconds(1),
                           [](ncclComm_t) { return ncclSuccess; });
              }),
              HasSubstr("was aborted"));
}

TEST(NcclLibraryTest, SaysWhetherItIsMissingOrTooOld) {
  EXPECT_THAT(error_of([] { NcclLibrary::load("libno_such_nccl.so.2"); }),
              AllOf(HasSubstr("the library is missing"), HasSubstr("libno_such_nccl")));
  EXPECT_THAT(error_of([] { NcclLibrary::load("libc.so.6"); }),
              AllOf(HasSubstr("libc.so.6 has no nccl"), HasSubstr("too old")));
}

TEST(NcclGpus, TwoRanksOnOneAreNamed) {
  const auto store = make_memory_store();
  std::vector<std::string> errors(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      const NcclPlace place{.rank = rank,
                            .size = 3,
                            .device = {DeviceKind::cuda, rank / 2},
                            .prefix = "p",
                            .interface = {},
                            .start_timeout = seconds(20)};
      errors[static_cast<std::size_t>(rank)] = error_of(
          [&] { require_own_gpus(*store, place, "boot 0000:0" + std::to_string(rank / 2)); });
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_THAT(errors[0], HasSubstr("ranks 0 and 1 are both on GPU 0"));
  EXPECT_THAT(errors[1], HasSubstr("ranks 0 and 1 are both on GPU 0"));
  EXPECT_EQ(errors[2], "no error");
}

}  // namespace
}  // namespace lockstep::comm

#endif
