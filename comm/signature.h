// Signature: what one rank says about the collective it has come to, so that ranks can find out
// that they disagree before any of them touches data.
//
// A plain value that travels between ranks as it lies in memory: through shared memory, or in a
// header message before the call.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace lockstep::comm {

struct Signature {
  std::uint64_t sequence = 0;  // how many collectives this communicator did before
  std::int64_t count = 0;
  Tag tag = no_tag;
  std::int32_t root = -1;  // -1 where the kind has none
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t algorithm = 0;  // as the backend numbers its algorithms
  bool operator==(const Signature&) const = default;
};

// In the place of the sequence number: the rank makes no further call, it leaves the group.
inline constexpr std::uint64_t leaving = ~std::uint64_t{0};

// "all_reduce number 17 (bucket 3, 1000 float32, sum)".
std::string to_string(const Signature& signature);

// The same for the same call, whenever it is made: what comm.check: plan compares once.
std::uint64_t hash_of_call(const Signature& signature);

// `by_rank[r]` came from rank r. Throws RankError naming both sides when they are not all equal:
// its rank() is the one that differs from the majority, -1 without a majority. Every rank that is
// given the same signatures throws the same error.
void check_agreement(std::span<const Signature> by_rank);

}  // namespace lockstep::comm
