#include "tests/emulation/machine.h"

#include <cstdio>

#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

Machine* installed = nullptr;

}  // namespace

const char* name_of(Fault fault) {
  static constexpr const char* names[] = {"no fault",
                                          "divergent barrier",
                                          "warp mismatch",
                                          "shared memory overflow",
                                          "uninitialised shared memory",
                                          "misaligned access",
                                          "out of bounds",
                                          "deadlock",
                                          "trap",
                                          "misuse"};
  return names[static_cast<std::size_t>(fault)];
}

Machine& current_machine() {
  static Machine fallback;
  return installed != nullptr ? *installed : fallback;
}

Machine::Machine(const MachineOptions& options)
    : options_(options),
      random_(options.seed),
      fibers_(under_address_sanitizer() || under_thread_sanitizer() ? 256 * 1024 : 64 * 1024) {
  installed = this;
}

Machine::~Machine() {
  if (installed == this) installed = nullptr;
}

void Machine::report(Fault fault, const std::string& text) {
  if (failed()) return;
  report_ = {fault, text};
  std::fprintf(stderr, "emulation, seed %llu: %s\n", static_cast<unsigned long long>(options_.seed),
               text.c_str());
}

bool Machine::run(const Grid& grid) {
  for (std::uint64_t i = 0; i < grid.block_count() && !failed(); ++i) {
    const auto x = static_cast<unsigned>(i % grid.grid_extent.x);
    const auto y = static_cast<unsigned>(i / grid.grid_extent.x % grid.grid_extent.y);
    const auto z = static_cast<unsigned>(i / grid.grid_extent.x / grid.grid_extent.y);
    Block block(*this, grid, {x, y, z});
    while (!block.finished() && !failed()) {
      if (!block.can_step()) {
        now_ += 1000;
        block.poll_parked();
      } else {
        block.step();
      }
    }
  }
  return !failed();
}

}  // namespace lockstep::emulation
