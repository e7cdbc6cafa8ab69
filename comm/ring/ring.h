// The project's own collectives between ranks of one host, as a Communicator.
//
// Algorithms of all_reduce: "ring" (reduce-scatter, then all-gather around a ring, chunked and
// pipelined) and "two_shot" (each rank reduces its slice straight from all peers and writes it to
// all peers, one pass over memory). "auto" chooses by size and world size from a built-in table.
// Memory from addressable_memory() is read and written in place; other memory is staged through it
// in chunks. bfloat16 and float16 are reduced in float.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/memory/group.h"

namespace lockstep::comm {

// Takes the group; collective.
std::unique_ptr<Communicator> make_ring_communicator(std::unique_ptr<Group> group,
                                                     const CommunicatorOptions& options);

}  // namespace lockstep::comm
