// What the hierarchical backends have in common: how data is cut, and how a level's ranks are
// named.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace lockstep::comm {

// Pieces of a large all-reduce: enough of them for both levels to work at the same time, each large
// enough for its time on the way to be long against that of a message.
inline int pieces_of(const Range& data) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 20, most = 8;
  return static_cast<int>(std::clamp<std::size_t>(data.bytes() / piece_bytes, 1, most));
}

inline Range part_of(const Range& data, const Slice& slice) {
  return {data.at(slice.begin), slice.count(), data.dtype};
}

inline std::string text_of(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace lockstep::comm
