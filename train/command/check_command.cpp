#include "train/command/check_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "framework/base/error.h"
#include "train/config/locate.h"
#include "train/config/print.h"
#include "train/exit_code.h"

namespace lockstep::train {
namespace {

void warn_of_what_is_refused_here(const Config& config, const CheckConfigRequest& request) {
  try {
    choose_setup(config, request);
  } catch (const Error& error) {
    fmt::print(stderr, "warning: train would refuse this on this machine: {}\n", error.what());
  }
}

}  // namespace

int check_config(const CheckConfigRequest& request) {
  const Config config = load_config(locate_config(request.config), request.overrides);
  if (!request.workers_given) {
    warn_of_what_is_refused_here(config, request);
    fmt::print("{}", to_yaml(config, Comments::with));
    return exit_done;
  }
  RunSetup setup = choose_setup(config, request);
  choose_places_and_tuning(setup, /*checkpoint=*/"");
  for (const std::string& line : setup.lines()) fmt::print("# {}\n", line);
  fmt::print("{}", to_yaml(setup.config, Comments::with));
  return exit_done;
}

}  // namespace lockstep::train
