// The backward pass.
//
// Eager tape, re-entrant per rank: all state of a backward lives in the call. Nodes run when the
// gradient of their output is complete; each is freed as soon as it ran. For each leaf the engine
// counts its uses on this tape and announces each element of the leaf's gradient exactly once: the
// op that makes the last contribution may announce leading elements while it runs (a large matrix
// product in blocks of rows), the rest follow when its whole backward has been enqueued. Ready
// means that the count of remaining uses reached zero, not that a traversal order came by. The
// order of the nodes is the reverse of a depth-first walk over their inputs, a pure function of the
// graph and so the same on every rank.
#pragma once

#include <cstdint>
#include <functional>

#include "framework/autograd/variable.h"

namespace lockstep::autograd {

// Elements [begin, end) of a leaf's gradient are final, once the work enqueued so far is done. The
// ranges of a leaf follow each other from 0 to its count. Gradients of other leaves, and values
// that the running op still reads, are not to be touched.
using GradientReady =
    std::function<void(const Variable& leaf, std::int64_t begin, std::int64_t end)>;

struct BackwardOptions {
  GradientReady on_gradient_ready;
  // True adds to the gradients that leaves already have (later micro-batches of an accumulation);
  // false overwrites them.
  bool accumulate = false;
  // What the gradient of the output is: one element of any dtype, 1 where it is undefined.
  Tensor seed_gradient = {};
};

// Gradients of a scalar (one element) with respect to every leaf that requires one. Throws
// UsageError: output not a scalar, nothing to differentiate, graph already consumed by an earlier
// backward.
void backward(const Variable& output, const BackwardOptions& options = {});

}  // namespace lockstep::autograd
