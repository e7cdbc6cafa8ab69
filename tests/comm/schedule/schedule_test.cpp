// Schedules, executed symbolically: data is the list of ranks whose contributions it holds, in the
// order in which they were added.
#include "comm/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>

namespace lockstep::comm::schedule {

namespace {

using Contributions = std::vector<int>;

// What a rank's memory holds of a slice.
struct Held {
  Contributions ranks;
  std::string sum;  // in the order of the additions, "((0+1)+2)"
};

class Simulation {
 public:
  explicit Simulation(std::vector<Schedule> schedules)
      : next_(schedules.size()), complete_(schedules.size()), memory_(schedules.size()) {
    const auto slices = static_cast<std::size_t>(schedules.front().slices);
    for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
      EXPECT_EQ(schedules[rank].slices, schedules.front().slices);
      lists_.push_back(std::move(schedules[rank].steps));
      complete_[rank].resize(slices);
      const int self = static_cast<int>(rank);
      memory_[rank].assign(slices, {{self}, std::to_string(self)});
    }
  }

  // Executes in an order drawn from `seed` until nobody can go on; true when all lists are done and
  // all messages received. A step of one rank falls between any two of another, so that one which
  // waits for too little meets memory that is not ready or no longer holds what it should.
  bool run(unsigned seed = 0) {
    std::minstd_rand random(seed + 1);
    std::vector<std::size_t> order(lists_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (bool moved = true; moved;) {
      moved = false;
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t rank : order) {
        auto most = 1 + random() % lists_[rank].size();
        while (most-- > 0 && next_[rank] < lists_[rank].size() && execute(rank)) moved = true;
      }
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
  const std::string& sum(std::size_t rank, std::size_t slice) const {
    return memory_[rank][slice].sum;
  }
  std::size_t slices() const { return complete_.front().size(); }
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
    if (step.action == Action::reduce_all_store_all || step.action == Action::reduce_all_store) {
      data.resize(lists_.size());
      std::iota(data.begin(), data.end(), 0);
      for (auto& slices : complete_)
        if (step.action == Action::reduce_all_store_all || &slices == &complete_[rank])
          store(slices, step.slice, data);
      ++next_[rank];
      return true;
    }
    if (step.action == Action::reduce_from || step.action == Action::reduce_complete_from ||
        step.action == Action::store_from)
      return read_from_peer(rank, step);
    if (step.from != Step::nobody) {
      auto& queue = messages_[{step.from, self}];
      if (queue.empty()) return false;
      if (queue.front().slice != step.slice) return false;  // it awaits another slice
      data = queue.front().contributions;
      queue.pop_front();
    }
    const bool adds = step.action == Action::send || step.action == Action::receive_reduce_send ||
                      step.action == Action::receive_reduce_store_send ||
                      step.action == Action::receive_reduce_store ||
                      step.action == Action::send_complete;
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

  bool read_from_peer(std::size_t rank, const Step& step) {
    const auto from = static_cast<std::size_t>(step.from);
    if (next_[from] < static_cast<std::size_t>(step.after)) return false;
    for (int slice = step.slice; slice < step.slice + step.slices; ++slice) {
      Held& mine = memory_[rank][static_cast<std::size_t>(slice)];
      const Held& theirs = memory_[from][static_cast<std::size_t>(slice)];
      if (step.action == Action::store_from) {
        mine = theirs;
      } else {
        const Held& first = from < rank ? theirs : mine;
        const Held& second = from < rank ? mine : theirs;
        Held sum{first.ranks, "(" + first.sum + "+" + second.sum + ")"};
        sum.ranks.insert(sum.ranks.end(), second.ranks.begin(), second.ranks.end());
        mine = std::move(sum);
      }
      if (step.action != Action::reduce_from) store(complete_[rank], slice, mine.ranks);
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
  std::vector<std::vector<Held>> memory_;  // of schedules that read their peers'
  std::map<std::pair<int, int>, std::deque<Message>> messages_;
  int sent_ = 0;
};

std::vector<Schedule> for_all_ranks(Algorithm algorithm, int size) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < size; ++rank) schedules.push_back(algorithm(rank, size));
  return schedules;
}

// Every rank ends with every slice, each of which holds every contribution once, added in one
// order.
void expect_all_reduced(const Simulation& simulation, int size) {
  for (std::size_t slice = 0; slice < simulation.slices(); ++slice) {
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
    for (const Step& step : ring_all_reduce(rank, size).steps) {
      EXPECT_TRUE(step.to == Step::nobody || step.to == (rank + 1) % size);
      EXPECT_TRUE(step.from == Step::nobody || step.from == (rank + size - 1) % size);
    }
  }
  Simulation simulation(for_all_ranks(ring_all_reduce, size));
  ASSERT_TRUE(simulation.run());
  EXPECT_EQ(*simulation.result(0, 3), (Contributions{4, 0, 1, 2, 3}));
}

TEST(Schedule, RingOfOneHasNothingToDo) {
  EXPECT_TRUE(ring_all_reduce(0, 1).steps.empty());
}

TEST(Schedule, RingReduceScatterCompletesEachRanksSlice) {
  for (std::size_t size = 2; size <= 9; ++size) {
    Simulation simulation(for_all_ranks(ring_reduce_scatter, static_cast<int>(size)));
    ASSERT_TRUE(simulation.run()) << size << " ranks are stuck";
    for (std::size_t rank = 0; rank < size; ++rank) {
      for (std::size_t slice = 0; slice < size; ++slice)
        EXPECT_EQ(simulation.result(rank, slice).has_value(), rank == slice);
      EXPECT_EQ(simulation.result(rank, rank)->size(), size);
    }
  }
}

TEST(Schedule, RingAllGatherBringsEverySliceFromItsRank) {
  for (std::size_t size = 2; size <= 9; ++size) {
    Simulation simulation(for_all_ranks(ring_all_gather, static_cast<int>(size)));
    ASSERT_TRUE(simulation.run()) << size << " ranks are stuck";
    for (std::size_t rank = 0; rank < size; ++rank)
      for (std::size_t slice = 0; slice < size; ++slice)
        EXPECT_EQ(*simulation.result(rank, slice), Contributions{static_cast<int>(slice)});
  }
}

TEST(Schedule, RingChainsBeginOrEndAtTheRoot) {
  for (int size = 2; size <= 6; ++size) {
    for (int root = 0; root < size; ++root) {
      std::vector<Schedule> out, in;
      for (int rank = 0; rank < size; ++rank) {
        out.push_back(ring_broadcast(rank, size, root));
        in.push_back(ring_reduce(rank, size, root));
      }
      Simulation broadcast(out), reduce(in);
      ASSERT_TRUE(broadcast.run() && reduce.run());
      Contributions order;
      for (int k = 1; k <= size; ++k) order.push_back((root + k) % size);
      for (int rank = 0; rank < size; ++rank) {
        const auto place = static_cast<std::size_t>(rank);
        EXPECT_EQ(*broadcast.result(place, 0), Contributions{root});
        EXPECT_EQ(reduce.result(place, 0).has_value(), rank == root);
      }
      EXPECT_EQ(*reduce.result(static_cast<std::size_t>(root), 0), order);
    }
  }
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

TEST(Schedule, OneShotReducesEverythingEverywhere) {
  Simulation simulation(for_all_ranks(one_shot_all_reduce, 4));
  ASSERT_TRUE(simulation.run());
  expect_all_reduced(simulation, 4);
}

TEST(Schedule, PeerReadingSchedulesReduceEverySliceOnceInAnyInterleaving) {
  for (const Algorithm algorithm : {halving_doubling_all_reduce, reduce_broadcast_all_reduce}) {
    for (int size = 2; size <= 17; ++size) {
      for (unsigned seed = 0; seed < 20; ++seed) {
        Simulation simulation(for_all_ranks(algorithm, size));
        ASSERT_TRUE(simulation.run(seed)) << size << " ranks are stuck";
        expect_all_reduced(simulation, size);
      }
    }
  }
}

// "((0+1)+(2+3))" for ranks 0 to 3.
std::string balanced_tree(int begin, int end) {
  if (end - begin == 1) return std::to_string(begin);
  const int middle = (begin + end) / 2;
  return "(" + balanced_tree(begin, middle) + "+" + balanced_tree(middle, end) + ")";
}

TEST(Schedule, HalvingDoublingAddsInTheOrderOfTheBalancedTree) {
  for (const int size : {2, 4, 8, 16, 32}) {
    Simulation simulation(for_all_ranks(halving_doubling_all_reduce, size));
    ASSERT_TRUE(simulation.run());
    for (std::size_t slice = 0; slice < simulation.slices(); ++slice)
      EXPECT_EQ(simulation.sum(0, slice), balanced_tree(0, size));
  }
}

// Rank r completes the slice whose number is r with its bits reversed.
TEST(Schedule, HalvingDoublingCompletesSlicesInBitReversedPlaces) {
  const std::vector<int> reversed = {0, 4, 2, 6, 1, 5, 3, 7};
  for (int rank = 0; rank < 8; ++rank) {
    const Schedule schedule = halving_doubling_all_reduce(rank, 8);
    EXPECT_EQ(schedule.steps.size(), 6u);
    const Step& last_halving = schedule.steps[2];
    EXPECT_EQ(last_halving.action, Action::reduce_complete_from);
    EXPECT_EQ(last_halving.slice, reversed[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(last_halving.slices, 1);
  }
}

TEST(Schedule, HalvingDoublingFoldsWhatIsNoPowerOfTwoInPairs) {
  Simulation simulation(for_all_ranks(halving_doubling_all_reduce, 6));
  ASSERT_TRUE(simulation.run());
  EXPECT_EQ(simulation.sum(5, 0), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(halving_doubling_all_reduce(1, 6).steps.size(), 1u);
}

TEST(Schedule, ReduceBroadcastLeavesAllWorkToTheFirstRank) {
  Simulation simulation(for_all_ranks(reduce_broadcast_all_reduce, 5));
  ASSERT_TRUE(simulation.run());
  EXPECT_EQ(simulation.sum(4, 0), "((((0+1)+2)+3)+4)");
  EXPECT_EQ(reduce_broadcast_all_reduce(0, 5).steps.size(), 4u);
  EXPECT_EQ(reduce_broadcast_all_reduce(3, 5).steps.size(), 1u);
}

// The simulation itself must be able to fail.
TEST(Schedule, SimulationFindsARankThatWaitsInVain) {
  auto lists = for_all_ranks(ring_all_reduce, 3);
  lists[1].steps.erase(lists[1].steps.begin());
  EXPECT_FALSE(Simulation(lists).run());
}

// ... and see a step that waits for one step too few, in some interleaving.
TEST(Schedule, SimulationFindsAStepThatDoesNotWaitLongEnough) {
  for (std::size_t position = 1; position < 4; ++position) {
    auto schedules = for_all_ranks(halving_doubling_all_reduce, 4);
    --schedules[2].steps[position].after;
    bool found = false;
    for (unsigned seed = 0; seed < 100 && !found; ++seed) {
      Simulation simulation(schedules);
      found = !simulation.run(seed);
      for (std::size_t slice = 0; slice < simulation.slices(); ++slice)
        for (std::size_t rank = 0; rank < 4; ++rank)
          found = found || simulation.sum(rank, slice) != balanced_tree(0, 4);
    }
    EXPECT_TRUE(found) << "step " << position;
  }
}

}  // namespace

}  // namespace lockstep::comm::schedule
