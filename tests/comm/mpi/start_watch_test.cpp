#include "comm/mpi/start_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StartWatch, NamesARankThatDoesNotCome) {
  const auto store = make_memory_store();
  std::promise<std::string> said;
  const StartWatch first(*store, 0, 3, milliseconds(1000),
                         [&](const std::exception& error) { said.set_value(error.what()); });
  const StartWatch third(*store, 2, 3, milliseconds(200), nullptr);  // answers at the half of it
  auto what = said.get_future();
  ASSERT_EQ(what.wait_for(seconds(30)), std::future_status::ready);
  EXPECT_THAT(what.get(), AllOf(HasSubstr("rank 1 did not come"), HasSubstr("within 1 s")));
}

TEST(StartWatch, BlamesNobodyWhereAllWait) {
  const auto store = make_memory_store();
  std::promise<std::string> said;
  const StartWatch first(*store, 0, 2, milliseconds(1000),
                         [&](const std::exception& error) { said.set_value(error.what()); });
  const StartWatch second(*store, 1, 2, milliseconds(200), nullptr);
  auto what = said.get_future();
  ASSERT_EQ(what.wait_for(seconds(30)), std::future_status::ready);
  EXPECT_THAT(what.get(), HasSubstr("all ranks wait"));
}

TEST(StartWatch, SaysNothingOnceMpiHasStarted) {
  const auto store = make_memory_store();
  std::optional<StartWatch> watch(std::in_place, *store, 0, 2, seconds(60),
                                  [](const std::exception& error) { FAIL() << error.what(); });
  watch.reset();
}

}  // namespace
}  // namespace lockstep::comm
