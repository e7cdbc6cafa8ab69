#pragma once

#include "comm/communicator.h"
#include "framework/nn/parameter_arena.h"

namespace lockstep::train {

// Memory in which the peers read and write data in place, if the backend has such; otherwise an
// empty source, and any memory will do. A call of the source is collective, with the same size on
// all ranks; StartupError when there is not enough. The communicator must outlive the source.
nn::BufferSource peer_memory(comm::Communicator& communicator);

// `bytes` of it, or of the context's.
Buffer peer_memory(comm::Communicator& communicator, Context& context, std::size_t bytes);

}  // namespace lockstep::train
