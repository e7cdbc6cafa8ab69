// The `train` program on emulated GPUs. Ranks must be threads (--launcher threads): a machine is
// one process. From the environment: LOCKSTEP_EMULATION_SEED is the interleaving,
// LOCKSTEP_EMULATION_DEVICES how many devices there are. LOCKSTEP_EMULATION_APART, where it is set,
// means that none of them reaches another's memory, LOCKSTEP_EMULATION_PCIE that PCIe joins them
// and not NVLink, and LOCKSTEP_EMULATION_CONTEXTS asks for a line for each host thread: "thread 3
// uses cuda:1".
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/emulation/machine.h"
#include "train/command/program.h"

namespace {

using lockstep::emulation::Machine;

constexpr int found_wrong = 99;  // the exit code where the machine did, which no run has

unsigned long long number_from(const char* variable, unsigned long long otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::stoull(text) : otherwise;
}

void print_contexts(const Machine& machine) {
  for (const auto& [thread, devices] : machine.contexts()) {
    std::string text = fmt::format("thread {} uses", thread);
    for (const int device : devices) text += fmt::format(" cuda:{}", device);
    std::puts(text.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::emulation::MachineOptions options;
  options.seed = number_from("LOCKSTEP_EMULATION_SEED", 1);
  options.devices = static_cast<int>(number_from("LOCKSTEP_EMULATION_DEVICES", 8));
  options.peer_access = std::getenv("LOCKSTEP_EMULATION_APART") == nullptr;
  options.nvlink = std::getenv("LOCKSTEP_EMULATION_PCIE") == nullptr;
  Machine machine(options);
  const int code = lockstep::train::run_program(argc, argv);
  if (std::getenv("LOCKSTEP_EMULATION_CONTEXTS") != nullptr) print_contexts(machine);
  if (code != 0 && !machine.last_stall().empty())
    std::fprintf(stderr, "the last long wait of the emulated machine:\n%s",
                 machine.last_stall().c_str());
  std::string wrong;
  if (machine.has_untaken_report()) {
    wrong = machine.report().text;
  } else if (code == 0 && !machine.leaks().empty()) {
    wrong = "not freed: " + machine.leaks();
  }
  if (wrong.empty()) return code;
  std::fprintf(stderr, "the emulated machine: %s\nthis was with LOCKSTEP_EMULATION_SEED=%llu\n",
               wrong.c_str(), static_cast<unsigned long long>(options.seed));
  return found_wrong;
}
