// How ranks find out whether there is a core for each of them, wherever they are confined to.
#include <gtest/gtest.h>

#include <thread>

#include "comm/ring/ring.h"
#include "tests/comm/ring/one_core.h"

namespace lockstep::comm::ring {

namespace {

// Which algorithm the ranks take for small data, rank r being confined to core cores[r]: one that
// wakes nobody for a second round where there are cores for all.
std::vector<std::string> algorithms_on(const std::vector<int>& cores) {
  const int ranks = static_cast<int>(cores.size());
  auto groups = make_thread_groups(ranks);
  std::vector<std::string> algorithms(cores.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < cores.size(); ++r)
    threads.emplace_back([&, r] {
      testing::stay_on_core(cores[r]);
      algorithms[r] = make_ring_communicator(std::move(groups[r]), {})->algorithm_for(1024);
    });
  for (std::thread& thread : threads) thread.join();
  return algorithms;
}

TEST(Cores, RanksConfinedToTheirOwnHaveOneEach) {
  if (CoreMask::of_this_thread().count() < 2) GTEST_SKIP() << "needs two cores";
  EXPECT_EQ(algorithms_on({0, 1}), std::vector<std::string>(2, "one_shot"));
}

TEST(Cores, RanksConfinedToOneAreTooMany) {
  EXPECT_EQ(algorithms_on({0, 0}), std::vector<std::string>(2, "two_shot"));
}

TEST(Cores, AMaskAddsUp) {
  CoreMask mask, other;
  mask.words[0] = 5;
  other.words[0] = 6;
  other.words[15] = 1;
  mask.add(other);
  EXPECT_EQ(mask.count(), 4);
}

}  // namespace

}  // namespace lockstep::comm::ring
