#include "comm/message/first_cause.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

TEST(FirstCause, ReachesTheOthersThroughTheStore) {
  const auto store = make_memory_store();
  FirstCause mine(*store, "cause"), theirs(*store, "cause");
  EXPECT_FALSE(theirs.find(milliseconds(0)));
  mine.offer(3, "rank 3: a cause\nof two lines");
  EXPECT_FALSE(theirs.heard());
  const auto found = theirs.find(milliseconds(0));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank(), 3);
  EXPECT_STREQ(found->what(), "rank 3: a cause\nof two lines");
}

TEST(FirstCause, IsTheFirstOfSeveral) {
  const auto store = make_memory_store();
  FirstCause mine(*store, "cause"), theirs(*store, "cause");
  int calls = 0;
  mine.on_offer([&](const RankError& error) {
    ++calls;
    EXPECT_EQ(error.rank(), -1);
  });
  mine.offer(-1, "first");
  mine.offer(2, "second");
  theirs.offer(4, "third");
  EXPECT_EQ(calls, 1);
  EXPECT_STREQ(mine.heard()->what(), "first");
  FirstCause another(*store, "cause");
  EXPECT_STREQ(another.find(milliseconds(0))->what(), "first");
}

TEST(FirstCause, OfTheWholeIsOneOfItsParts) {
  const auto store = make_memory_store();
  const auto whole = std::make_shared<FirstCause>(*store, "whole");
  const auto part = whole->make_part("part");
  bool ended = false;
  part->on_offer([&](const RankError&) { ended = true; });
  whole->offer(1, "the whole");
  EXPECT_TRUE(ended);
  EXPECT_STREQ(part->heard()->what(), "the whole");
}

TEST(FirstCause, OfAPartIsNotOneOfTheWhole) {
  const auto store = make_memory_store();
  const auto whole = std::make_shared<FirstCause>(*store, "whole");
  const auto part = whole->make_part("part");
  part->offer(1, "the part");
  EXPECT_FALSE(whole->find(milliseconds(0)));
  EXPECT_STREQ(part->heard()->what(), "the part");
}

TEST(FirstCause, IsWaitedFor) {
  const auto store = make_memory_store();
  FirstCause mine(*store, "cause"), theirs(*store, "cause");
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(50));
    mine.offer(0, "late");
  });
  const auto found = theirs.find(std::chrono::seconds(20));
  later.join();
  ASSERT_TRUE(found);
  EXPECT_STREQ(found->what(), "late");
}

}  // namespace
}  // namespace lockstep::comm
