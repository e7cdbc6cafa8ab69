// Ranges of bytes, and how staged forms cut data into chunks that fit into the staging memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace lockstep::comm::ring {

// A range of bytes inside some data.
struct ByteRange {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// Copies bytes that do not overlap; the pointers may be null where there are none.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// The bytes [begin, begin + length) of `range`, as far as it goes.
inline ByteRange piece_of(ByteRange range, std::size_t begin, std::size_t length) {
  const std::size_t first = std::min(begin, range.bytes);
  return {range.offset + first, std::min(length, range.bytes - first)};
}

// Calls body(ByteRange) for each chunk of at most `capacity` bytes, for empty data once. `capacity`
// is a multiple of every element's size.
template <class Body>
void for_each_chunk(std::size_t bytes, std::size_t capacity, Body&& body) {
  std::size_t offset = 0;
  do {
    body(ByteRange{offset, std::min(capacity, bytes - offset)});
    offset += capacity;
  } while (offset < bytes);
}

}  // namespace lockstep::comm::ring
