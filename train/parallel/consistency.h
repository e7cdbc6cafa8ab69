// The proof that replicas are identical: digests of every parameter, compared over all ranks.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "framework/nn/parameter_arena.h"

namespace lockstep::train {

// Collective. Compares 64 bits of each rank's parameters; when they differ, one more exchange finds
// the first parameter that does. Throws NumericError on every rank, naming the parameter, the ranks
// that are the odd ones out (or both, of two) and the step.
void require_equal_replicas(comm::Communicator& communicator, const nn::ParameterArena& arena,
                            std::int64_t step, Stream& stream);

}  // namespace lockstep::train
