// The `train` program.
#pragma once

namespace lockstep::train {

// What main() does: a worker, or a command of the user. Returns the exit code.
int run_program(int argc, char** argv);

}  // namespace lockstep::train
