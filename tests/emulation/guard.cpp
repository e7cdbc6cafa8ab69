#include "tests/emulation/guard.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/emulation/machine.h"
#include "tests/emulation/sanitizer.h"
#include "tests/emulation/symbols.h"

namespace lockstep::emulation {
namespace {

void print(const std::string& text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

// The program is lost either way, so that formatting here is no risk.
void report_fault(int, siginfo_t* info, void*) {
  signal(SIGSEGV, SIG_DFL);
  const Machine* const machine = Machine::installed();
  const std::string what = machine != nullptr ? machine->describe_address(info->si_addr) : "";
  if (what.empty()) return;  // the access faults again, and ends the program as it would have
  const std::string who = Machine::on_device_thread()
                              ? "a kernel of a device that was not given access to it"
                              : "host code";
  std::string text = fmt::format("emulation: {} touches {}, from", who, what);
  void* frames[32];
  const int count = backtrace(frames, 32);
  for (int i = 0; i < count; ++i) {
    const std::string name = name_of_function(frames[i]);
    if (name != "?" && name.find("report_fault") == std::string::npos) text += "\n  " + name;
  }
  print(text + "\n");
  abort();
}

}  // namespace

void install_memory_guard() {
  if (under_address_sanitizer() || under_thread_sanitizer()) return;
  struct sigaction action {};
  action.sa_sigaction = report_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace lockstep::emulation
