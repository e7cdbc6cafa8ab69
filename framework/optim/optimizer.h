// Optimizers as one pass over flat ranges of a ParameterArena.
//
// The state (momentum, moments) has the arena's layout, one flat tensor for each segment, so that a
// range of parameters has its state at the same range, and a checkpoint can save it by parameter
// name. How the elements are cut into ranges does not change a bit of the result. Formulae are
// PyTorch's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/nn/parameter_arena.h"

namespace lockstep::optim {

// Used by the rank's own thread; the arena must outlive it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  virtual std::string_view name() const = 0;
  // Starts update number `update` (1, 2, ...) with this learning rate; then apply() every range
  // once.
  void begin_update(double lr);
  // Applies elements [begin, end) of segment `segment`. Gradients are multiplied by `grad_scale`
  // first. Throws UsageError for a range that is not in the segment, or before any begin_update().
  void apply(std::size_t segment, std::int64_t begin, std::int64_t end, double grad_scale = 1.0);
  void apply_all(double grad_scale = 1.0);

  // Named state, each one flat tensor for each segment of the arena ("momentum"; "first_moment",
  // "second_moment"). Zero at first.
  struct State {
    std::string name;
    std::vector<Tensor> segments;
  };
  const std::vector<State>& state() const { return state_; }
  std::int64_t updates() const { return updates_; }               // begun so far
  void set_updates(std::int64_t updates) { updates_ = updates; }  // when resuming

 protected:
  explicit Optimizer(nn::ParameterArena& arena) : arena_(arena) {}

  // A range of one segment, and that range of a flat tensor.
  struct Range {
    std::size_t segment;
    std::int64_t begin;
    std::int64_t end;
    Tensor of(const Tensor& flat) const { return flat.slice(0, begin, end); }
    Tensor of(const State& state) const { return of(state.segments[segment]); }
  };
  // The update itself; `range` is not empty and lies in `segment`.
  virtual void update(const nn::ParameterArena::Segment& segment, const Range& range,
                      double grad_scale) = 0;

  void add_state(const std::string& name);
  double lr() const { return lr_; }

 private:
  nn::ParameterArena& arena_;
  std::vector<State> state_;
  double lr_ = 0;
  std::int64_t updates_ = 0;
};

// Stochastic gradient descent. With momentum m: v = m * v + g, then p -= lr * v, or with Nesterov's
// momentum p -= lr * (g + m * v). Weight decay adds weight_decay * p to the gradient g.
struct Sgd {
  double momentum = 0;  // in [0, 1)
  double weight_decay = 0;
  bool nesterov = false;  // needs momentum
};

// Adam (Kingma, Ba: "Adam: a method for stochastic optimization", ICLR 2015) or AdamW (Loshchilov,
// Hutter: "Decoupled weight decay regularization", ICLR 2019), which scales the parameter by
// 1 - lr * weight_decay instead of adding the decay to the gradient.
struct Adam {
  double beta1 = 0.9;    // in [0, 1)
  double beta2 = 0.999;  // in [0, 1)
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW
};

// Throw ConfigError for an option out of range.
std::unique_ptr<Optimizer> make_sgd(nn::ParameterArena& arena, const Sgd& options);
std::unique_ptr<Optimizer> make_adam(nn::ParameterArena& arena, const Adam& options);

}  // namespace lockstep::optim
