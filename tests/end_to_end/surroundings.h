// What surrounds a run: network namespaces to start it in, and the ports that it listens on.
#pragma once

#include <sys/types.h>

#include <string>

#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {

bool may_make_namespaces();

// `command` in a network namespace of its own, with the loopback alone, on a host of that name.
Arguments in_namespace(const std::string& host_name, const Arguments& command);

// A line for each TCP port that the process listens on.
std::string listening_ports_of(pid_t process);

}  // namespace lockstep::tests
