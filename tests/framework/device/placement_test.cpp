#include "framework/device/cpu/placement.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

#include "framework/base/error.h"

namespace lockstep::device {

namespace {

using Cores = std::vector<Topology::Core>;

// `cores_of_node[n]` cores of one cpu each, numbered through.
Topology machine(const std::vector<int>& cores_of_node) {
  Topology topology;
  int cpu = 0;
  for (std::size_t n = 0; n < cores_of_node.size(); ++n)
    for (int c = 0; c < cores_of_node[n]; ++c)
      topology.cores.push_back({static_cast<int>(n), {cpu++}});
  return topology;
}

std::vector<std::string> lists(const std::vector<Cores>& blocks) {
  std::vector<std::string> result;
  for (const Cores& block : blocks) result.push_back(list_cpus(block));
  return result;
}

using Lists = std::vector<std::string>;

TEST(Placement, OneCoreForEachOfAsManyWorkers) {
  EXPECT_EQ(lists(blocks_for(machine({2}), 2, 1)), (Lists{"0", "1"}));
}

TEST(Placement, SpareCoresGoToTheBlocks) {
  EXPECT_EQ(lists(blocks_for(machine({8}), 3, 1)), (Lists{"0-1", "2-4", "5-7"}));
}

TEST(Placement, WorkersSpreadOverNodesInContiguousBlocks) {
  EXPECT_EQ(lists(blocks_for(machine({4, 4}), 2, 1)), (Lists{"0-3", "4-7"}));
  EXPECT_EQ(lists(blocks_for(machine({4, 4}), 4, 2)), (Lists{"0-1", "2-3", "4-5", "6-7"}));
  EXPECT_EQ(lists(blocks_for(machine({6, 2}), 4, 1)), (Lists{"0-1", "2-3", "4-5", "6-7"}));
}

// Three workers of two threads on nodes of three cores: each node has room for one only.
TEST(Placement, AWorkerSpansNodesOnlyWhereNoneHasRoomForIt) {
  EXPECT_EQ(lists(blocks_for(machine({3, 3}), 3, 2)), (Lists{"0-1", "2-3", "4-5"}));
  EXPECT_EQ(lists(blocks_for(machine({3, 3}), 2, 3)), (Lists{"0-2", "3-5"}));
}

TEST(Placement, NoBlocksWhereTheThreadsDoNotFit) {
  EXPECT_TRUE(blocks_for(machine({2}), 3, 1).empty());
  EXPECT_TRUE(blocks_for(machine({4}), 2, 3).empty());
}

TEST(Placement, BlocksNeverOverlapAndHoldTheThreads) {
  for (const auto& nodes : {std::vector{1}, {7}, {5, 3}, {4, 4, 4, 4}, {1, 9, 2}}) {
    const Topology topology = machine(nodes);
    for (int workers = 1; workers <= 10; ++workers) {
      for (int threads = 1; threads <= 4; ++threads) {
        const auto blocks = blocks_for(topology, workers, threads);
        if (blocks.empty()) continue;
        ASSERT_EQ(blocks.size(), static_cast<std::size_t>(workers));
        std::set<int> seen;
        for (const Cores& block : blocks) {
          EXPECT_GE(block.size(), static_cast<std::size_t>(threads));
          for (const auto& core : block)
            for (const int cpu : core.cpus) EXPECT_TRUE(seen.insert(cpu).second) << cpu;
        }
      }
    }
  }
}

TEST(Placement, HardwareThreadsOfACoreStayTogether) {
  const auto topology = synthetic_topology("numa:2 core:2 pu:2");
  if (!topology) GTEST_SKIP() << "this build has no hwloc";
  ASSERT_EQ(topology->cores.size(), 4u);
  EXPECT_EQ(topology->cores[3], (Topology::Core{1, {6, 7}}));
  EXPECT_EQ(lists(blocks_for(*topology, 4, 1)), (Lists{"0-1", "2-3", "4-5", "6-7"}));
  EXPECT_TRUE(blocks_for(*topology, 5, 1).empty());
}

TEST(Placement, OnlyAllowedCpusCount) {
  const auto topology = synthetic_topology("numa:2 core:4 pu:2", {1, 4, 5, 14});
  if (!topology) GTEST_SKIP() << "this build has no hwloc";
  EXPECT_EQ(lists(blocks_for(*topology, 3, 1)), (Lists{"1", "4-5", "14"}));
}

// What this thread may use is what it was confined to, as for the threads that it starts.
TEST(Placement, AThreadStaysWhereItIsConfined) {
  std::thread([] {
    const auto before = allowed_topology();
    if (!before) GTEST_SKIP() << "this build has no hwloc";
    const Cores last = {before->cores.back()};
    confine_this_thread(last);
    EXPECT_EQ(allowed_topology()->cores, last);
    std::thread([&] { EXPECT_EQ(allowed_topology()->cores, last); }).join();
    EXPECT_EQ(sched_getcpu(), last[0].cpus.size() == 1 ? last[0].cpus[0] : sched_getcpu());
  }).join();
}

TEST(Placement, CoresThatAreNotThereAreRefused) {
  EXPECT_THROW(confine_this_thread({{0, {100'000}}}), StartupError);
}

TEST(Placement, ListsRanges) {
  EXPECT_EQ(list_cpus({{0, {3}}, {0, {0, 1}}, {0, {2, 7}}}), "0-3,7");
}

}  // namespace

}  // namespace lockstep::device
