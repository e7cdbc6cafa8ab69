#include "train/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "framework/base/error.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

TEST(FaultHook, StrikesOnlyWhereItWasTold) {
  const FaultHook faults("rank=3,step=5,at=forward,do=raise");
  EXPECT_TRUE(faults.active());
  for (const int rank : {0, 2, 4}) faults.hit(rank, 5, FaultPlace::forward);
  for (const std::int64_t step : {0, 4, 6}) faults.hit(3, step, FaultPlace::forward);
  faults.hit(3, 5, FaultPlace::read);
  EXPECT_THROW(faults.hit(3, 5, FaultPlace::forward), Error);
}

TEST(FaultHook, RaisesWhatThePlaceCouldRaise) {
  EXPECT_THROW(FaultHook("at=read,do=raise").hit(0, 1, FaultPlace::read), DataError);
  EXPECT_THROW(FaultHook("at=save,do=raise").hit(0, 1, FaultPlace::save), CheckpointError);
  EXPECT_THROW(FaultHook("at=start,do=raise").hit(0, 0, FaultPlace::start), StartupError);
}

TEST(FaultHook, WithoutRankOrStepStrikesAll) {
  const FaultHook faults("at=gradient,do=nan;rank=1,at=gradient,do=inf;at=after_step,do=flip");
  EXPECT_EQ(faults.hit(0, 1, FaultPlace::gradient), Damage::nan);
  EXPECT_EQ(faults.hit(1, 2, FaultPlace::gradient), Damage::inf);
  EXPECT_EQ(faults.hit(7, 9, FaultPlace::after_step), Damage::flip);
  EXPECT_EQ(faults.hit(7, 9, FaultPlace::save), Damage::none);
}

TEST(FaultHook, Stalls) {
  const auto start = std::chrono::steady_clock::now();
  FaultHook("at=read,do=stall:0.05").hit(0, 1, FaultPlace::read);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
}

TEST(FaultHookDeathTest, EndsTheProcess) {
  EXPECT_EXIT(FaultHook("at=read,do=exit:9").hit(0, 1, FaultPlace::read),
              ::testing::ExitedWithCode(9), "TRAIN_FAULT 'at=read,do=exit:9' strikes rank 0");
  EXPECT_EXIT(FaultHook("at=read,do=kill").hit(0, 1, FaultPlace::read),
              ::testing::KilledBySignal(SIGKILL), "strikes rank 0 in step 1 at read");
}

TEST(FaultHook, SaysWhatItDidNotUnderstand) {
  const std::pair<const char*, const char*> cases[] = {
      {"rank=x,at=read,do=raise", "rank: found 'x'"},
      {"rank=-1,at=read,do=raise", "rank: found '-1'"},
      {"at=nowhere,do=raise", "at: found 'nowhere', expected one of start, read"},
      {"at=read,do=explode", "do: found 'explode', expected raise"},
      {"at=read,do=stall", "do=stall:SECONDS"},
      {"at=read,do=stall:soon", "do=stall:SECONDS: found 'soon'"},
      {"at=read,do=raise:1", "do: found 'raise:1'"},
      {"at=read", "do= is missing"},
      {"do=raise", "at= is missing"},
      {"at=read,do=raise;", "TRAIN_FAULT ''"},
      {"when=now,at=read,do=raise", "found 'when=now'"},
  };
  for (const auto& [faults, message] : cases) {
    try {
      FaultHook hook(faults);
      FAIL() << faults;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << faults;
    }
  }
}

TEST(FaultHook, ReadsTheEnvironment) {
  ::unsetenv("TRAIN_FAULT");
  EXPECT_FALSE(FaultHook::from_environment().active());
  ::setenv("TRAIN_FAULT", "at=read,do=nan", 1);
  EXPECT_EQ(FaultHook::from_environment().hit(0, 1, FaultPlace::read), Damage::nan);
  ::unsetenv("TRAIN_FAULT");
}

}  // namespace
}  // namespace lockstep::train
