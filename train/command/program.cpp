#include "train/command/program.h"

#include <cstdio>
#include <exception>
#include <string>

#include "framework/device/cuda/cuda_context.h"
#include "train/checkpoint.h"
#include "train/command/command_line.h"
#include "train/command/train_command.h"
#include "train/config/print.h"
#include "train/exit_code.h"

namespace lockstep::train {
namespace {

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
}

// One for each request.
struct Command {
  int operator()(const TrainRequest& request) const { return train(request); }
  int operator()(const CompareOptions& request) const { return compare(request); }
  int operator()(const PlanRequest& request) const { return print_plan(request); }
  int operator()(const CheckConfigRequest& request) const { return check_config(request); }
  int operator()(const ReferenceRequest&) const {
    print(configuration_reference());
    return exit_done;
  }
  int operator()(const InspectRequest& request) const {
    inspect_checkpoint(request.checkpoint);
    return exit_done;
  }
  int operator()(const PrintRequest& request) const {
    print(request.text);
    return exit_done;
  }
};

}  // namespace

int run_program(int argc, char** argv) {
  device::prepare_cuda_process();
  if (const auto code = run_if_worker(argc, argv, train_rank)) return *code;
  try {
    return std::visit(Command(), parse_command_line(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return exit_code_of(error);
  }
}

}  // namespace lockstep::train
