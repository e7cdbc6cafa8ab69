// FrozenParameters: those that Variable::set_requires_grad() keeps from being trained, which may
// change from update to update. They stay as they are, whatever momentum and weight decay say, and
// add nothing to the averaged gradient.
#pragma once

#include <algorithm>
#include <vector>

#include "framework/nn/parameter_arena.h"
#include "framework/optim/optimizer.h"

namespace lockstep::train {

class FrozenParameters {
 public:
  // The arena must outlive this.
  explicit FrozenParameters(nn::ParameterArena& arena);

  // At the start of an update: finds which they are, and clears what an earlier update left in the
  // gradients of those that were not frozen then.
  void look();

  // By segment, ascending.
  const std::vector<std::vector<optim::ElementRange>>& ranges() const { return ranges_; }

  // Calls body(begin, end) for the parts of [begin, end) of a segment that are not frozen.
  template <class Body>
  void for_each_trained(std::size_t segment, std::int64_t begin, std::int64_t end,
                        Body&& body) const {
    for (const optim::ElementRange& frozen : ranges_[segment]) {
      if (frozen.end <= begin) continue;
      if (frozen.begin >= end) break;
      if (begin < frozen.begin) body(begin, frozen.begin);
      begin = std::min(frozen.end, end);
    }
    if (begin < end) body(begin, end);
  }

 private:
  nn::ParameterArena& arena_;
  std::vector<std::vector<bool>> is_frozen_;  // by segment and entry
  std::vector<std::vector<optim::ElementRange>> ranges_;
};

}  // namespace lockstep::train
