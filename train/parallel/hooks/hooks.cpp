#include "train/parallel/hooks/hooks.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/parallel/hooks/half.h"
#include "train/parallel/hooks/power_sgd.h"
#include "train/parallel/hooks/top_k.h"

namespace lockstep::train {
namespace {

ReductionFactory none(const HookOptions&) {
  return {};
}

ReductionFactory bf16(const HookOptions&) {
  return make_bf16_hook;
}

ReductionFactory fp16(const HookOptions&) {
  return make_fp16_hook;
}

ReductionFactory top_k(const HookOptions& options) {
  return [=](comm::Communicator& communicator, const nn::ParameterArena& arena,
             const comm::BucketPlan& plan) {
    return make_top_k_hook(communicator, arena, plan,
                           {.ratio = options.top_k_ratio, .can_undo = options.may_skip});
  };
}

ReductionFactory power_sgd(const HookOptions& options) {
  return [=](comm::Communicator& communicator, const nn::ParameterArena& arena,
             const comm::BucketPlan& plan) {
    return make_power_sgd_hook(communicator, arena, plan,
                               {.rank = options.power_sgd_rank,
                                .start = options.power_sgd_start,
                                .seed = options.seed,
                                .can_undo = options.may_skip});
  };
}

const HookSpec& find(std::string_view name) {
  const auto found = std::ranges::find(hooks(), name, &HookSpec::name);
  if (found != hooks().end()) return *found;
  std::vector<std::string> known;
  for (const HookSpec& hook : hooks()) known.push_back(hook.name);
  throw ConfigError(fmt::format("data_parallel.hook: found {}, expected one of {}", name,
                                fmt::join(known, ", ")));
}

}  // namespace

const std::vector<HookSpec>& hooks() {
  static const std::vector<HookSpec> all = {
      {"none", "the gradients as they are", none},
      {"bf16", "rounded to bfloat16, half the bytes", bf16},
      {"fp16", "as float16, scaled so that sums neither overflow nor vanish", fp16},
      {"top_k", "the largest gradients only, the others wait in a residual", top_k},
      {"power_sgd", "a low-rank approximation, with a residual", power_sgd},
  };
  return all;
}

ReductionFactory make_hook(std::string_view name, const HookOptions& options) {
  return find(name).make(options);
}

}  // namespace lockstep::train
