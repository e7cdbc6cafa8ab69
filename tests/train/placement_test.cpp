#include "train/placement.h"

#include <gmock/gmock.h>

#include <thread>

#include "framework/base/error.h"
#include "framework/device/cpu/placement.h"

namespace lockstep::train {

namespace {

using testing::HasSubstr;

// On a thread of its own, which the test may confine.
void on_a_thread(const std::function<void()>& body) {
  std::thread(body).join();
}

TEST(Placement, WhatDoesNotFitIsLeftToTheSchedulerAndSaid) {
  const int cores = usable_cores();
  const auto choice = choose_placement({.threads = 1, .pin = "auto"}, cores + 1);
  EXPECT_FALSE(choice.pin);
  EXPECT_THAT(choice.line, AllOf(HasSubstr("not pinned"), HasSubstr(std::to_string(cores + 1))));
  EXPECT_FALSE(choose_placement({.threads = 1, .pin = "off"}, 1).pin);
  EXPECT_FALSE(choose_placement({.threads = 1, .pin = "auto"}, 1).pin);
}

TEST(Placement, OnIsRefusedWhereItCannotBe) {
  try {
    choose_placement({.threads = 2, .pin = "on"}, usable_cores());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("compute.pin: on"), HasSubstr("2 threads each"),
                                    HasSubstr("found " + std::to_string(usable_cores()))));
  }
}

TEST(Placement, EachWorkerTakesItsOwnCores) {
  const int cores = usable_cores();
  if (cores < 2 || !device::allowed_topology()) GTEST_SKIP() << "needs two cores and hwloc";
  const Config::Compute compute{.threads = 1, .pin = "auto"};
  const auto choice = choose_placement(compute, 2);
  if (!choice.pin) GTEST_SKIP() << "the cores are hardware threads of one: " << choice.line;
  EXPECT_THAT(choice.line, HasSubstr("pinned to the cores"));
  int used = 0;
  for (int worker = 0; worker < 2; ++worker)
    on_a_thread([&] {
      take_place(compute, worker, 2);
      used += usable_cores();
      // The threads of a worker are counted before it takes its place.
      EXPECT_LT(usable_cores(), cores);
    });
  EXPECT_EQ(used, cores);
}

}  // namespace

}  // namespace lockstep::train
