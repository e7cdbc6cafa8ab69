#include "framework/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::optim {
namespace {

struct ShapeFactor {
  std::int64_t step;
  std::int64_t warmup_steps;

  double operator()(const Constant&) const { return 1.0; }

  double operator()(const Step& shape) const {
    const std::int64_t falls = step / shape.every;
    return std::pow(shape.factor, static_cast<double>(falls));
  }

  double operator()(const Cosine& shape) const {
    const std::int64_t length = std::max<std::int64_t>(1, shape.updates - warmup_steps);
    const std::int64_t done = std::clamp<std::int64_t>(step - warmup_steps, 0, length);
    const double progress = static_cast<double>(done) / static_cast<double>(length);
    return shape.minimum +
           (1.0 - shape.minimum) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  }
};

}  // namespace

double Schedule::factor(std::int64_t step) const {
  const double warmup =
      step < warmup_steps ? static_cast<double>(step + 1) / static_cast<double>(warmup_steps) : 1.0;
  return warmup * std::visit(ShapeFactor{step, warmup_steps}, shape);
}

}  // namespace lockstep::optim
