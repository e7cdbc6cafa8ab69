// Runs of the `train` program on emulated GPUs (emulated/train_emulated.cpp); on real ones, which
// the workers share, where LOCKSTEP_TRAIN_ON_GPUS names the program (tests/gpu/run does so).
#pragma once

#include <string>
#include <vector>

#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {

// Few rows: with batches of 16, the last of three rows, eight workers leave some without any.
inline constexpr MadeData few_rows{.training_samples = 67, .test_samples = 23};

// `sandbox.train()` on GPUs, with checks of the replicas after each update.
Arguments on_gpus(const Sandbox& sandbox, int workers, const Arguments& settings = {},
                  const Arguments& more = {});
// The same run on CPU workers.
Arguments on_cpus(const Sandbox& sandbox, int workers, const Arguments& settings = {},
                  const Arguments& more = {});
Environment seed(int number);

// Of each update, and of the evaluations behind them.
std::vector<double> losses_of(const Sandbox& sandbox, const Program::End& end);

}  // namespace lockstep::tests
