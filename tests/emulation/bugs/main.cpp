// planted_bugs NAME bug|none SEED: runs one planted bug, or the same without it.
// Exit code 0: nothing was noticed; 10: the emulation reported something; 11: wrong numbers came
// out. ThreadSanitizer and AddressSanitizer end the program in their own ways.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "tests/emulation/bugs/bugs.h"

namespace {

using namespace lockstep::emulation;

std::optional<bugs::Bug> find(std::string_view name) {
  for (const auto* const list : {&bugs::kernel_bugs(), &bugs::wait_bugs(), &bugs::stream_bugs(),
                                 &bugs::graph_bugs(), &bugs::ring_bugs()}) {
    for (const bugs::Bug& bug : *list) {
      if (bug.name == name) return bug;
    }
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<bugs::Bug> bug = argc == 4 ? find(argv[1]) : std::nullopt;
  if (!bug) {
    std::fprintf(stderr, "usage: planted_bugs NAME bug|none SEED\n");
    return 2;
  }
  MachineOptions options = bug->options;
  options.seed = std::stoull(argv[3]);
  Machine machine(options);
  bool right = false;
  try {
    right = bug->run(argv[2] == std::string_view("bug"));
  } catch (const std::exception& error) {
    if (!machine.failed()) std::printf("%s\n", error.what());
  }
  if (machine.failed()) {
    std::printf("%s\n", machine.report().text.c_str());
    return 10;
  }
  return right ? 0 : 11;
}
