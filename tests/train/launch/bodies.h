// Small bodies for ranks, chosen by name, and the command line that launches them:
//
//   train_test launch body=raise workers=4 kind=threads rank=2 error=data
//
// Every argument is also a setting that the body reads from the store.
#pragma once

#include <string>
#include <vector>

#include "train/launch/launch.h"

namespace lockstep::train::testing {

inline constexpr const char* launch_command = "launch";

// The command that starts this test program as a launcher with these arguments.
inline std::vector<std::string> launcher(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/proc/self/exe", launch_command});
  return arguments;
}

void run_body(Worker& worker);
int launch_bodies(int argc, char** argv);  // returns the exit code of the run

}  // namespace lockstep::train::testing
