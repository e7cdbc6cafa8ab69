// Learning-rate schedules: pure functions of the update number, so that they have no state to save.
#pragma once

#include <cstdint>
#include <variant>

namespace lockstep::optim {

struct Constant {};
// Times `factor` after every `every` updates, counted from the start of the run.
struct Step {
  std::int64_t every = 1;  // >= 1
  double factor = 0.1;
};
// Half a cosine from the base rate at the end of the warm-up to `minimum` at the end of the run,
// and `minimum` ever after (Loshchilov, Hutter: "SGDR", ICLR 2017, without restarts).
struct Cosine {
  std::int64_t updates = 1;  // of the whole run, warm-up included
  double minimum = 0;        // as a fraction of the base rate
};

struct Schedule {
  std::variant<Constant, Step, Cosine> shape;
  // The first updates use 1 / warmup_steps, 2 / warmup_steps, ... 1 times the rate (Goyal et al.:
  // "Accurate, large minibatch SGD", 2017).
  std::int64_t warmup_steps = 0;

  // The factor on the base rate for update `step` (0, 1, ...).
  double factor(std::int64_t step) const;
};

}  // namespace lockstep::optim
