#include "comm/memory/yield_budget.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

TEST(YieldBudgetTest, IsThereForEveryWaitWhereYieldsComeBackSoon) {
  YieldBudget budget;
  budget.set_most(7);
  const auto now = device::Clock::now();
  for (int wait = 0; wait < 100; ++wait) {
    EXPECT_EQ(budget.yields(), 7);
    EXPECT_TRUE(budget.note(now, now + 99us));
  }
}

TEST(YieldBudgetTest, RestsAfterALateReturnForFiftyTimesAsLong) {
  YieldBudget budget;
  budget.set_most(7);
  const auto now = device::Clock::now();
  EXPECT_FALSE(budget.note(now - 1s, now));
  EXPECT_EQ(budget.yields(), 0);
  EXPECT_FALSE(budget.note(now - 51s, now - 50s));  // that rest is just over
  EXPECT_EQ(budget.yields(), 7);
}

TEST(YieldBudgetTest, BelongsToTheThreadThatSetIt) {
  YieldBudget budget;
  budget.set_most(7);
  std::thread([&] {
    EXPECT_EQ(budget.yields(), 0);
    budget.set_most(3);
    EXPECT_EQ(budget.yields(), 3);
  }).join();
  EXPECT_EQ(budget.yields(), 0);
}

TEST(YieldBudgetTest, CanBeNone) {
  EXPECT_EQ(YieldBudget().yields(), 0);
}

}  // namespace
}  // namespace lockstep::comm
