// Backends that reach other hosts, over hosts that are network namespaces: their ranks share no
// memory and no loopback, and a link between them can be cut.
#include <gtest/gtest.h>

#include "comm/gloo/gloo.h"
#include "framework/device/cpu/cpu_context.h"
#include "tests/conformance/backend.h"
#include "tests/conformance/tester.h"
#include "tests/support/namespaces.h"

namespace lockstep::tests {

namespace {

using comm::ReduceOp;
using std::chrono::milliseconds;

class Hosts : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!comm::has_gloo()) GTEST_SKIP() << "Gloo is not in this build";
    if (!Namespaces::are_possible()) GTEST_SKIP() << "network namespaces need root here";
  }

  // Ranks 0 and 1 on the first host, 2 and 3 on the second.
  static constexpr int world = 4, per_host = 2;

  static std::vector<RankReport> run(const Namespaces& hosts,
                                     const std::function<void(Rank&, comm::Communicator&)>& body) {
    return run_ranks(RankKind::processes, world, [&](Rank& rank) {
      hosts.enter(rank.index() / per_host);
      const auto communicator = comm::find_backend(GetParam())
                                    .make(place_of(rank, "eth0"), {.timeout = milliseconds(1500)});
      body(rank, *communicator);
    });
  }
};

TEST_P(Hosts, AreFoundAndReached) {
  const Namespaces hosts(world / per_host);
  const auto reports = run(hosts, [](Rank& rank, comm::Communicator& communicator) {
    const auto stream = device::make_inline_stream();
    Tester tester(communicator, *stream, Memory::addressable, std::size_t{1} << 23);
    for (const std::int64_t count : {1, 1000, 1 << 20})
      tester.all_reduce(DType::float32, ReduceOp::sum, count);
    rank.set_digest(tester.digest());
  });
  for (const RankReport& report : reports) {
    EXPECT_EQ(report.error, "");
    EXPECT_EQ(report.digest, reports.front().digest);
  }
}

TEST_P(Hosts, ThatAreCutOffEndEveryRankInTime) {
  const Namespaces hosts(world / per_host);
  const auto reports = run(hosts, [&](Rank& rank, comm::Communicator& communicator) {
    const auto stream = device::make_inline_stream();
    std::vector<float> data(1 << 18, 1.0f);
    const auto call = [&] {
      communicator.all_reduce(comm::range_of(std::span(data)), ReduceOp::max, *stream).wait();
    };
    for (int i = 0; i < 5; ++i) call();
    if (rank.index() == 0) hosts.cut(1);
    const auto start = device::Clock::now();
    try {
      while (true) call();
    } catch (const RankError& error) {
      const double seconds = std::chrono::duration<double>(device::Clock::now() - start).count();
      if (seconds > 6) throw std::runtime_error(fmt::format("ended after {} s", seconds));
      const std::string text = error.what();
      if (error.rank() < 0 && text.find("are cut") == text.npos)
        throw std::runtime_error("names no rank: " + text);
    }
  });
  for (const RankReport& report : reports) EXPECT_EQ(report.error, "");
}

INSTANTIATE_TEST_SUITE_P(Conformance, Hosts, testing::Values("gloo", "ring+gloo"),
                         [](const auto& backend) {
                           return std::string(backend.param) == "gloo" ? "gloo" : "ring_gloo";
                         });

}  // namespace

}  // namespace lockstep::tests
