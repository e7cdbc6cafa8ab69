// The emulated machine: devices, seed, virtual time, and what was found wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/emulation/fiber.h"
#include "tests/emulation/grid.h"

namespace lockstep::emulation {

struct MachineOptions {
  int devices = 8;
  std::uint64_t seed = 1;
};

// The machine that the runtime API works on. One at a time; without one, the first call makes one
// of the default options.
class Machine final : public BlockServices {
 public:
  explicit Machine(const MachineOptions& options = {});
  ~Machine() override;

  const MachineOptions& options() const { return options_; }
  const Report& report() const { return report_; }

  Random& random() override { return random_; }
  FiberPool& fibers() override { return fibers_; }
  std::uint64_t now() override { return now_ += 10; }
  void report(Fault fault, const std::string& text) override;
  bool failed() const override { return report_.fault != Fault::none; }

  bool run(const Grid& grid);

 private:
  MachineOptions options_;
  Random random_;
  FiberPool fibers_;
  std::uint64_t now_ = 0;
  Report report_;
};

Machine& current_machine();

}  // namespace lockstep::emulation
