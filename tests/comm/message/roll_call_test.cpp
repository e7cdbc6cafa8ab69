#include "comm/message/roll_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Collective call_number(std::uint64_t sequence, milliseconds timeout) {
  Collective call;
  call.signature = {.sequence = sequence, .kind = CollectiveKind::all_reduce};
  call.timeout = timeout;
  call.deadline = device::Clock::now() + timeout;
  return call;
}

TEST(RollCall, FindsThoseThatHaveNotComeSoFar) {
  const auto store = make_memory_store();
  RollCall first(*store, "p", 0, 3), second(*store, "p", 1, 3), third(*store, "p", 2, 3);
  first.answer(5);
  second.answer(3);
  third.answer(9);
  EXPECT_THAT(first.missing(5, milliseconds(20)), ElementsAre(1));
  second.answer(4);
  second.answer(6);
  EXPECT_THAT(first.missing(5, seconds(20)), IsEmpty());
  EXPECT_THAT(first.missing(7, milliseconds(0)), ElementsAre(0));  // furthest behind
}

TEST(RollCall, NamesTheRankThatIsSilentOrTheConnections) {
  const auto store = make_memory_store();
  RollCall first(*store, "p", 0, 2), second(*store, "p", 1, 2);
  const Collective call = call_number(2, milliseconds(10));
  const RankError silent = overdue(first, call, -1, "finish");
  EXPECT_EQ(silent.rank(), 1);
  EXPECT_THAT(silent.what(), HasSubstr("rank 1 did not finish all_reduce number 2"));
  EXPECT_EQ(overdue(first, call, 0, "arrive at").rank(), 0);
  second.answer(2);
  const RankError cut = overdue(first, call, -1, "finish");
  EXPECT_EQ(cut.rank(), -1);
  EXPECT_THAT(cut.what(), HasSubstr("connections between them are cut"));
}

TEST(StuckWatch, SpeaksForAThreadThatIsStuckInACall) {
  const auto store = make_memory_store();
  RollCall roll_call(*store, "p", 0, 2);
  std::promise<RankError> said;
  std::optional<StuckWatch> watch;
  watch.emplace(roll_call, [&](const RankError& error) { said.set_value(error); });
  { const StuckWatch::Guard guard(watch, call_number(0, seconds(20))); }
  const StuckWatch::Guard guard(watch, call_number(1, milliseconds(100)));
  auto error = said.get_future();
  ASSERT_EQ(error.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_EQ(error.get().rank(), 1);
}

TEST(StuckWatch, IsSilentAboutCallsThatEnd) {
  const auto store = make_memory_store();
  RollCall roll_call(*store, "p", 0, 2);
  std::optional<StuckWatch> watch;
  watch.emplace(roll_call, [](const RankError& error) { ADD_FAILURE() << error.what(); });
  for (std::uint64_t i = 0; i < 3; ++i) {
    const StuckWatch::Guard guard(watch, call_number(i, milliseconds(400)));
    std::this_thread::sleep_for(milliseconds(150));
  }
}

}  // namespace
}  // namespace lockstep::comm
