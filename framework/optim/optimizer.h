// Optimizers as one pass over flat ranges of a ParameterArena.
//
// The state (momentum, moments) has the arena's layout, one flat tensor for each segment, so that a
// range of parameters has its state at the same range, and a checkpoint can save it by parameter
// name. How the elements are cut into ranges does not change a bit of the result. Formulae are
// PyTorch's.
//
// An optimizer may serve a shard of the arena only, as one of several ranks that update a slice
// each: it has state for these elements and no others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/kernels/kernels.h"
#include "framework/nn/parameter_arena.h"

namespace lockstep::optim {

// Elements [begin, end) of one segment of an arena.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - begin; }
};
// For each segment of an arena ranges that ascend and are disjoint.
using Shard = std::vector<std::vector<ElementRange>>;
Shard whole_of(const nn::ParameterArena& arena);

// Used by the rank's own thread; the arena must outlive it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  virtual std::string_view name() const = 0;
  // Starts update number `update` (1, 2, ...) with this learning rate; then apply() every range
  // once. What the rate and the number decide goes to memory of the device by the compute stream;
  // apply() reads it there, so that a captured apply() can be replayed for another update.
  void begin_update(double lr);
  // Applies elements [begin, end) of segment `segment`. Throws UsageError for a range that is not
  // in one range of the shard, or before any begin_update().
  void apply(std::size_t segment, std::int64_t begin, std::int64_t end,
             const kernels::GradientUse& use = {});
  void apply_all(const kernels::GradientUse& use = {});  // the shard

  // Named state ("momentum"; "first_moment", "second_moment"), each one flat tensor for each
  // segment of the arena: the elements of the shard, one range after the other. Zero at first.
  struct State {
    std::string name;
    std::vector<Tensor> segments;
  };
  const std::vector<State>& state() const { return state_; }
  const Shard& shard() const { return shard_; }
  std::int64_t updates() const { return updates_; }               // begun so far
  void set_updates(std::int64_t updates) { updates_ = updates; }  // when resuming

 protected:
  // Throws UsageError for a shard that is not of this arena.
  Optimizer(nn::ParameterArena& arena, Shard shard);

  // A range of one segment, and that range of a flat tensor or of a state.
  struct Range {
    std::size_t segment;
    std::int64_t begin;
    std::int64_t end;
    std::int64_t state_begin;
    Tensor of(const Tensor& flat) const {
      return flat.defined() ? flat.slice(0, begin, end) : Tensor();
    }
    Tensor of(const State& state) const {
      return state.segments[segment].slice(0, state_begin, state_begin + end - begin);
    }
  };
  // Memory for what the steps of an update on such parameters read, and filling it.
  virtual Tensor make_constants(const Tensor& parameters) const = 0;
  virtual void store_constants(double lr, const Tensor& constants) const = 0;
  // The update itself; `range` is not empty and lies in `segment`.
  virtual void update(const nn::ParameterArena::Segment& segment, const Range& range,
                      const Tensor& constants, const kernels::GradientUse& use) = 0;

  void add_state(const std::string& name);

 private:
  Range range_of(std::size_t segment, std::int64_t begin, std::int64_t end) const;

  nn::ParameterArena& arena_;
  Shard shard_;
  std::vector<State> state_;
  std::vector<Tensor> constants_;  // by segment
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

// Of a shard of the arena, or of all of it. Throw ConfigError for an option out of range.
std::unique_ptr<Optimizer> make_sgd(nn::ParameterArena& arena, const Sgd& options, Shard shard);
std::unique_ptr<Optimizer> make_adam(nn::ParameterArena& arena, const Adam& options, Shard shard);
inline std::unique_ptr<Optimizer> make_sgd(nn::ParameterArena& arena, const Sgd& options) {
  return make_sgd(arena, options, whole_of(arena));
}
inline std::unique_ptr<Optimizer> make_adam(nn::ParameterArena& arena, const Adam& options) {
  return make_adam(arena, options, whole_of(arena));
}

}  // namespace lockstep::optim
