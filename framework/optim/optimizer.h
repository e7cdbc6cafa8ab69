// Optimizers as one pass over flat ranges of a ParameterArena.
//
// The state (momentum, moments) has the arena's layout, one flat tensor for each segment, so that a
// range of parameters has its state at the same range, and a checkpoint can save it by parameter name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/nn/parameter_arena.h"

namespace lockstep::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string_view name() const = 0;
  // Starts update number `update` (1, 2, ...) with this learning rate; then apply() every range once.
  void begin_update(double lr) { lr_ = lr; ++updates_; }
  // Applies elements [begin, end) of segment `segment`. Gradients are multiplied by `grad_scale` first.
  virtual void apply(std::size_t segment, std::int64_t begin, std::int64_t end, double grad_scale = 1.0) = 0;
  void apply_all(double grad_scale = 1.0);

  // Named state, each one flat tensor for each segment of the arena ("momentum"; "first_moment", ...).
  struct State {
    std::string name;
    std::vector<Tensor> segments;
  };
  const std::vector<State>& state() const { return state_; }
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }  // when resuming

 protected:
  explicit Optimizer(nn::ParameterArena& arena) : arena_(arena) {}
  // A zeroed state of the arena's layout.
  void add_state(const std::string& name);

  nn::ParameterArena& arena_;
  std::vector<State> state_;
  double lr_ = 0;
  std::int64_t updates_ = 0;
};

struct Sgd {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
struct Adam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW (Loshchilov, Hutter 2019)
};

std::unique_ptr<Optimizer> make_sgd(nn::ParameterArena& arena, const Sgd& options);
std::unique_ptr<Optimizer> make_adam(nn::ParameterArena& arena, const Adam& options);

}  // namespace lockstep::optim
