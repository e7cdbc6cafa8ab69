#include "framework/optim/optimizer.h"

#include <fmt/core.h>

#include "framework/base/error.h"

namespace lockstep::optim {

Shard whole_of(const nn::ParameterArena& arena) {
  Shard shard;
  for (const auto& segment : arena.segments()) shard.push_back({{0, segment.parameters.count()}});
  return shard;
}

Optimizer::Optimizer(nn::ParameterArena& arena, Shard shard)
    : arena_(arena), shard_(std::move(shard)) {
  if (shard_.size() != arena_.segments().size())
    throw UsageError(fmt::format("optimizer: the shard has {} segments, the arena {}",
                                 shard_.size(), arena_.segments().size()));
  for (std::size_t s = 0; s < shard_.size(); ++s) {
    std::int64_t previous = 0;
    for (const ElementRange& range : shard_[s]) {
      if (range.begin < previous || range.end < range.begin ||
          range.end > arena_.segments()[s].parameters.count())
        throw UsageError(fmt::format(
            "optimizer: range [{}, {}) of the shard must begin at {} or later and end within the "
            "{} elements of segment {}",
            range.begin, range.end, previous, arena_.segments()[s].parameters.count(), s));
      previous = range.end;
    }
  }
}

void Optimizer::begin_update(double lr) {
  ++updates_;
  for (std::size_t s = constants_.size(); s < shard_.size(); ++s)
    constants_.push_back(make_constants(arena_.segments()[s].parameters));
  for (const Tensor& constants : constants_) store_constants(lr, constants);
}

void Optimizer::apply(std::size_t segment, std::int64_t begin, std::int64_t end,
                      const kernels::GradientUse& use) {
  if (constants_.empty()) throw UsageError("optimizer: apply() before begin_update()");
  const Range range = range_of(segment, begin, end);
  if (begin < end) update(arena_.segments()[segment], range, constants_[segment], use);
}

void Optimizer::apply_all(const kernels::GradientUse& use) {
  for (std::size_t s = 0; s < shard_.size(); ++s)
    for (const ElementRange& range : shard_[s]) apply(s, range.begin, range.end, use);
}

Optimizer::Range Optimizer::range_of(std::size_t segment, std::int64_t begin,
                                     std::int64_t end) const {
  if (segment < shard_.size() && begin <= end) {
    std::int64_t state_begin = 0;
    for (const ElementRange& range : shard_[segment]) {
      if (begin >= range.begin && end <= range.end)
        return {segment, begin, end, state_begin + begin - range.begin};
      state_begin += range.count();
    }
  }
  throw UsageError(fmt::format("optimizer: range [{}, {}) of segment {} is not in its shard", begin,
                               end, segment));
}

void Optimizer::add_state(const std::string& name) {
  State state{name, {}};
  for (std::size_t s = 0; s < shard_.size(); ++s) {
    const Tensor& like = arena_.segments()[s].parameters;
    std::int64_t count = 0;
    for (const ElementRange& range : shard_[s]) count += range.count();
    state.segments.push_back(Tensor::empty(like.context(), Shape{count}, like.dtype()));
    kernels::kernels_for(like.context()).fill(0.0, state.segments.back());
  }
  state_.push_back(std::move(state));
}

}  // namespace lockstep::optim
