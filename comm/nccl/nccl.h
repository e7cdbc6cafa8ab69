// NCCL as a backend: its collectives on CUDA streams, one communicator for each rank.
//
// The library is loaded when the backend is chosen; a program runs without it. Its ranks need a GPU
// each. What differs from the rules in communicator.h: bfloat16 and float16 are rounded at every
// hop, as NCCL does it (their average is pre-multiplied, so that sums beyond the type's range do
// not overflow); comm.check: every compares each distinct call once, as plan does, because an
// exchange on the host before every call would hold up the stream.
//
// Algorithm of all_reduce: "auto" alone; NCCL's own variables (NCCL_ALGO, ...) apply.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "comm/store/store.h"

namespace lockstep::comm {

struct NcclPlace {
  int rank = 0;
  int size = 1;
  Device device;                         // a GPU of this rank's own
  std::string prefix;                    // this group's own in the store
  std::optional<std::string> interface;  // of NCCL's bootstrap; none: the loopback
  std::chrono::milliseconds start_timeout{60'000};
};

// Collective; called on the rank's own thread. The store outlives the communicator. StartupError
// says which piece is missing: the library, the driver, a GPU for each rank, a rank.
std::unique_ptr<Communicator> make_nccl_communicator(Store& store, const NcclPlace& place,
                                                     const CommunicatorOptions& options);

bool has_nccl();             // whether this build can load it
std::string missing_nccl();  // what it lacks on this machine; empty where it should work

// What rank 0 gives to the others so that they find it; made without a GPU. StartupError.
std::string make_nccl_id();

}  // namespace lockstep::comm
