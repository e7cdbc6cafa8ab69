// Learning-rate schedules: pure functions of the update number, so that they have no state to save.
#pragma once

#include <cstdint>
#include <variant>

namespace lockstep::optim {

struct Constant {};
struct Step {
  std::int64_t every = 1;  // updates
  double factor = 0.1;
};
struct Cosine {
  std::int64_t updates = 1;  // length of the whole run, warm-up included
  double minimum = 0;        // as a fraction of the base rate
};

struct Schedule {
  std::variant<Constant, Step, Cosine> shape;
  std::int64_t warmup_steps = 0;  // linear from lr / warmup_steps to lr

  // The factor on the base rate for update `step` (0, 1, ...).
  double factor(std::int64_t step) const;
};

}  // namespace lockstep::optim
