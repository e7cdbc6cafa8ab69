// What tests may ask of the fake NCCL, and tell it; found by name in the loaded library.
#pragma once

namespace lockstep::tests {

struct FakeNcclCounts {
  int joined, finalized, destroyed, aborted;
  int calls;          // collectives and messages
  int calls_grouped;  // of these, between a start and an end of a group
};

// "fake_nccl_counts"
using FakeNcclCountsFunction = FakeNcclCounts (*)();
// "fake_nccl_fail": from now on the asynchronous error of that rank's communicators. 0 for none.
using FakeNcclFailFunction = void (*)(int rank, int result);

}  // namespace lockstep::tests
