// The optimizers under test, each with its reference trajectory.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/optim/optimizer.h"
#include "tests/framework/optim/optimizer_reference.h"

namespace lockstep::optim {

struct Case {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(nn::ParameterArena&, const Shard&)> make_shard;
  const reference::Trajectory* trajectory;
  std::unique_ptr<Optimizer> make(nn::ParameterArena& arena) const {
    return make_shard(arena, whole_of(arena));
  }
};

inline Case sgd(const char* name, const Sgd& options, const reference::Trajectory& trajectory) {
  return {name,
          [=](nn::ParameterArena& arena, const Shard& shard) {
            return make_sgd(arena, options, shard);
          },
          &trajectory};
}

inline Case adam(const char* name, const Adam& options, const reference::Trajectory& trajectory) {
  return {name,
          [=](nn::ParameterArena& arena, const Shard& shard) {
            return make_adam(arena, options, shard);
          },
          &trajectory};
}

// The options are those of reference.py.
inline const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      sgd("sgd", {}, reference::sgd),
      sgd("sgd_decay", {.weight_decay = 0.05}, reference::sgd_decay),
      sgd("sgd_momentum", {.momentum = 0.9, .weight_decay = 0.01}, reference::sgd_momentum),
      sgd("sgd_nesterov", {.momentum = 0.8, .weight_decay = 0.01, .nesterov = true},
          reference::sgd_nesterov),
      adam("adam", {}, reference::adam),
      adam("adam_decay", {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1},
           reference::adam_decay),
      adam("adamw", {.beta1 = 0.9, .beta2 = 0.98, .weight_decay = 0.1, .decoupled = true},
           reference::adamw),
  };
  return all;
}

inline std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  return test.param.name;
}

}  // namespace lockstep::optim
