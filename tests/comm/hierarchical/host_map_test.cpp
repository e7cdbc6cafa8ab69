#include "comm/hierarchical/host_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HostMap, OrdersHostsByTheirFirstRankAndRanksWithinThem) {
  const HostMap map({"b", "a", "b", "a", "a"});
  EXPECT_EQ(map.hosts(), 2);
  EXPECT_THAT(map.ranks_of(0), ElementsAre(0, 2));
  EXPECT_THAT(map.ranks_of(1), ElementsAre(1, 3, 4));
  EXPECT_EQ(map.host_of(3), 1);
  EXPECT_EQ(map.place_of(3), 1);
}

TEST(HostMap, HasAsManyLanesAsTheSmallestHostHasRanks) {
  const HostMap map({"b", "a", "b", "a", "a"});
  EXPECT_EQ(map.lanes(), 2);
  EXPECT_THAT(map.ranks_of_lane(0), ElementsAre(0, 1));
  EXPECT_THAT(map.ranks_of_lane(1), ElementsAre(2, 3));
  EXPECT_EQ(map.describe(), "2 hosts of 2 to 3 ranks");
  EXPECT_EQ(HostMap({"x"}).describe(), "1 host of 1 rank");
}

TEST(HostMap, OfAPartNumbersItsMembersAnew) {
  const HostMap whole({"b", "a", "b", "a", "a"});
  const HostMap part = whole.of(std::array{4, 2, 1});
  EXPECT_THAT(part.ranks_of(0), ElementsAre(0, 2));  // 4 and 1, on a
  EXPECT_THAT(part.ranks_of(1), ElementsAre(1));     // 2, on b
}

TEST(HostMap, ThisHostIsTheSameToAllItsProcesses) {
  EXPECT_EQ(this_host(), this_host());
  EXPECT_THAT(this_host(), HasSubstr("net:["));
}

TEST(HostMap, RanksTellEachOtherTheirHosts) {
  const auto store = make_memory_store();
  std::array<std::string, 3> found;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      found[static_cast<std::size_t>(rank)] =
          exchange_hosts(*store, "p", rank, 3, rank == 1 ? "a" : "b", std::chrono::seconds(20))
              .describe();
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_THAT(found, ::testing::Each("2 hosts of 1 to 2 ranks"));
}

TEST(HostMap, ARankThatDoesNotTellIsNamed) {
  const auto store = make_memory_store();
  store->set("p/host/1", "a");
  try {
    exchange_hosts(*store, "p", 0, 3, "a", std::chrono::milliseconds(50));
    FAIL() << "nobody was missing";
  } catch (const StartupError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 2"));
  }
}

}  // namespace
}  // namespace lockstep::comm
