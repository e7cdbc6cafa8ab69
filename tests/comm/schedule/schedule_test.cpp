// Schedules, executed symbolically: data is the list of ranks whose contributions it holds, in the
// order in which they were added.
#include "comm/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>

namespace lockstep::comm::schedule {

namespace {

using Contributions = std::vector<int>;

class Simulation {
 public:
  explicit Simulation(std::vector<Steps> lists)
      : lists_(std::move(lists)),
        next_(lists_.size()),
        complete_(lists_.size(), std::vector<std::optional<Contributions>>(lists_.size())) {}

  // Executes until nobody can go on; true when all lists are done and all messages received.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < lists_.size(); ++rank)
        while (next_[rank] < lists_[rank].size() && execute(rank)) moved = true;
    }
    const auto is_empty = [](const auto& queue) { return queue.second.empty(); };
    for (std::size_t rank = 0; rank < lists_.size(); ++rank)
      if (next_[rank] != lists_[rank].size()) return false;
    return std::all_of(messages_.begin(), messages_.end(), is_empty);
  }

  // What `rank` ends with for `slice`; nothing where it was never completed.
  const std::optional<Contributions>& result(std::size_t rank, std::size_t slice) const {
    return complete_[rank][slice];
  }
  int messages() const { return sent_; }

 private:
  struct Message {
    int slice;
    Contributions contributions;
  };

  bool execute(std::size_t rank) {
    const Step& step = lists_[rank][next_[rank]];
    const int self = static_cast<int>(rank);
    Contributions data;
    if (step.action == Action::reduce_all_store_all) {
      data.resize(lists_.size());
      std::iota(data.begin(), data.end(), 0);
      for (auto& slices : complete_) store(slices, step.slice, data);
      ++next_[rank];
      return true;
    }
    if (step.from != Step::nobody) {
      auto& queue = messages_[{step.from, self}];
      if (queue.empty()) return false;
      if (queue.front().slice != step.slice) return false;  // it awaits another slice
      data = queue.front().contributions;
      queue.pop_front();
    }
    const bool adds = step.action == Action::send || step.action == Action::receive_reduce_send ||
                      step.action == Action::receive_reduce_store_send;
    if (adds) data.push_back(self);
    const bool stores = step.action != Action::send && step.action != Action::receive_reduce_send;
    if (stores) store(complete_[rank], step.slice, data);
    if (step.to != Step::nobody) {
      messages_[{self, step.to}].push_back({step.slice, data});
      ++sent_;
    }
    ++next_[rank];
    return true;
  }

  static void store(std::vector<std::optional<Contributions>>& slices, int slice,
                    const Contributions& data) {
    auto& place = slices[static_cast<std::size_t>(slice)];
    EXPECT_FALSE(place) << "slice " << slice << " is completed twice";
    place = data;
  }

  std::vector<Steps> lists_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<std::optional<Contributions>>> complete_;
  std::map<std::pair<int, int>, std::deque<Message>> messages_;
  int sent_ = 0;
};

std::vector<Steps> for_all_ranks(Steps (*algorithm)(int, int), int size) {
  std::vector<Steps> lists;
  for (int rank = 0; rank < size; ++rank) lists.push_back(algorithm(rank, size));
  return lists;
}

// Every rank ends with every slice, each of which holds every contribution once, added in one
// order.
void expect_all_reduced(const Simulation& simulation, int size) {
  for (std::size_t slice = 0; slice < static_cast<std::size_t>(size); ++slice) {
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
      const auto& result = simulation.result(rank, slice);
      ASSERT_TRUE(result) << "rank " << rank << " has no slice " << slice;
      EXPECT_EQ(*result, *simulation.result(0, slice)) << "added in another order";
      Contributions ranks = *result, expected(static_cast<std::size_t>(size));
      std::sort(ranks.begin(), ranks.end());
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(ranks, expected);
    }
  }
}

TEST(Schedule, RingReducesEverySliceOnceOnEveryRank) {
  for (int size = 2; size <= 17; ++size) {
    Simulation simulation(for_all_ranks(ring_all_reduce, size));
    ASSERT_TRUE(simulation.run()) << size << " ranks are stuck";
    expect_all_reduced(simulation, size);
    EXPECT_EQ(simulation.messages(), size * 2 * (size - 1));
  }
}

TEST(Schedule, RingSendsToTheRightAndAddsInTheOrderOfTheRing) {
  constexpr int size = 5;
  for (int rank = 0; rank < size; ++rank) {
    for (const Step& step : ring_all_reduce(rank, size)) {
      EXPECT_TRUE(step.to == Step::nobody || step.to == (rank + 1) % size);
      EXPECT_TRUE(step.from == Step::nobody || step.from == (rank + size - 1) % size);
    }
  }
  Simulation simulation(for_all_ranks(ring_all_reduce, size));
  ASSERT_TRUE(simulation.run());
  EXPECT_EQ(*simulation.result(0, 3), (Contributions{4, 0, 1, 2, 3}));
}

TEST(Schedule, RingOfOneHasNothingToDo) {
  EXPECT_TRUE(ring_all_reduce(0, 1).empty());
}

TEST(Schedule, TwoShotReducesInTheOrderOfTheRanks) {
  for (int size = 1; size <= 9; ++size) {
    Simulation simulation(for_all_ranks(two_shot_all_reduce, size));
    ASSERT_TRUE(simulation.run());
    expect_all_reduced(simulation, size);
    const Contributions last = *simulation.result(0, static_cast<std::size_t>(size) - 1);
    EXPECT_TRUE(std::is_sorted(last.begin(), last.end()));
  }
}

// The simulation itself must be able to fail.
TEST(Schedule, SimulationFindsARankThatWaitsInVain) {
  auto lists = for_all_ranks(ring_all_reduce, 3);
  lists[1].erase(lists[1].begin());
  EXPECT_FALSE(Simulation(lists).run());
}

}  // namespace

}  // namespace lockstep::comm::schedule
