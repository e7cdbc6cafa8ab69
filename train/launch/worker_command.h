// How the launcher starts this program again as a worker: the hidden command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

struct WorkerCommand {
  int rank = 0;
  int world_size = 1;
  int control = -1;     // descriptors that the worker inherits
  int scoreboard = -1;  //
  int store = -1;       // -1: the launcher says over the control channel where the store listens
};

// `program` followed by what parse_worker_command() reads.
std::vector<std::string> worker_arguments(const std::string& program, const WorkerCommand& command);

// Nothing when it is the command line of a user.
std::optional<WorkerCommand> parse_worker_command(int argc, char** argv);

}  // namespace lockstep::train
