// LossScaler: keeps small gradients of 16-bit arithmetic from vanishing, and finds the scale by
// itself (Micikevicius et al.: "Mixed precision training", ICLR 2018).
//
// The loss is multiplied by scale(), the gradients by 1 / scale() before the update. Gradients that
// overflow lower the scale, a long run without overflow raises it. Decisions follow from the
// averaged gradients, which are the same bits on every rank, so every rank has the same scale
// without asking.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::train {

struct LossScale {
  double value = 1;              // what the loss is multiplied by; a power of two
  std::int64_t clean_steps = 0;  // since the last change
  bool operator==(const LossScale&) const = default;
};

class LossScaler {
 public:
  static constexpr double first_scale = 65536;
  static constexpr double largest_scale = 0x1p40;
  static constexpr std::int64_t steps_to_grow = 2000;

  LossScaler() = default;  // no scaling: the scale stays 1
  explicit LossScaler(bool dynamic) : dynamic_(dynamic), state_{dynamic ? first_scale : 1, 0} {}

  bool is_dynamic() const { return dynamic_; }
  double scale() const { return state_.value; }

  // After a step whose averaged gradients were finite, or not (the update is skipped then).
  void record(bool finite) {
    if (!dynamic_) return;
    if (!finite) {
      state_ = {std::max(1.0, state_.value / 2), 0};
    } else if (++state_.clean_steps == steps_to_grow) {
      state_ = {std::min(largest_scale, state_.value * 2), 0};
    }
  }

  const LossScale& state() const { return state_; }
  void restore(const LossScale& state) { state_ = state; }

 private:
  bool dynamic_ = false;
  LossScale state_;
};

}  // namespace lockstep::train
