#include "comm/memory/spin_budget.h"

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

TEST(SpinBudgetTest, StartsAndStaysFullWherePollingPays) {
  SpinBudget budget(1000);
  for (int wait = 0; wait < 200; ++wait) {
    EXPECT_EQ(budget.looks(), 1000);
    budget.paid();
  }
}

TEST(SpinBudgetTest, ShrinksToNothingWhereItDoesNotButTriesAgain) {
  SpinBudget budget(1000);
  int looks = 0, full = 0;
  for (int wait = 0; wait < 640; ++wait) {
    const int now = budget.looks();
    looks += now;
    full += now == 1000;
    budget.failed();
  }
  EXPECT_LE(full, 11);
  EXPECT_GE(full, 10);
  EXPECT_LT(looks, 13'000);
}

TEST(SpinBudgetTest, ComesBackAfterAFewWaits) {
  SpinBudget budget(1000);
  for (int wait = 0; wait < 20; ++wait) {
    budget.looks();
    budget.failed();
  }
  for (int wait = 0; wait < 8; ++wait) {
    budget.looks();
    budget.paid();
  }
  EXPECT_EQ(budget.looks(), 1000);
}

TEST(SpinBudgetTest, CanBeNone) {
  SpinBudget budget(1000);
  budget.set_most(0);
  for (int wait = 0; wait < 130; ++wait) {
    EXPECT_EQ(budget.looks(), 0);
    budget.paid();
  }
}

}  // namespace
}  // namespace lockstep::comm
