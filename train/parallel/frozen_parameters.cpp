#include "train/parallel/frozen_parameters.h"

#include "framework/kernels/kernels.h"

namespace lockstep::train {

FrozenParameters::FrozenParameters(nn::ParameterArena& arena)
    : arena_(arena), ranges_(arena.segments().size()) {
  for (const auto& segment : arena.segments())
    is_frozen_.emplace_back(segment.entries.size(), false);
}

void FrozenParameters::look() {
  for (std::size_t s = 0; s < ranges_.size(); ++s) {
    ranges_[s].clear();
    for (std::size_t e = 0; e < is_frozen_[s].size(); ++e) {
      const auto& entry = arena_.segments()[s].entries[e];
      const bool frozen = !entry.parameter.requires_grad();
      if (frozen && !is_frozen_[s][e])
        kernels::kernels_for(entry.parameter.context()).fill(0, entry.parameter.grad());
      if (frozen) ranges_[s].push_back({entry.begin, entry.end});
      is_frozen_[s][e] = frozen;
    }
  }
}

}  // namespace lockstep::train
