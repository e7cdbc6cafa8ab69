// The test program is also the program that its launcher tests start: as a launcher of the bodies
// in bodies.cpp, and as its workers.
#include <gtest/gtest.h>

#include <string_view>

#include "tests/train/launch/bodies.h"

int main(int argc, char** argv) {
  using namespace lockstep::train::testing;
  if (const auto code = run_if_worker(argc, argv, run_body)) return *code;
  if (argc > 1 && std::string_view(argv[1]) == launch_command) return launch_bodies(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
