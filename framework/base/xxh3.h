// XXH3 with a seed (Collet: xxHash, "XXH3 algorithm overview"), 64 bits of it, in the form that
// kernels of a GPU can call: for inputs of a few words, where base::hash64 would need the host.
#pragma once

#include <cstdint>

namespace lockstep::base {

// hash64 of the eight bytes of a little-endian word.
constexpr std::uint64_t hash64_of_word(std::uint64_t word, std::uint64_t seed) {
  // Bytes 8 to 23 of the algorithm's secret.
  constexpr std::uint64_t secret = 0x1CAD21F72C81017CULL ^ 0xDB979083E96DD4DEULL;
  constexpr std::uint64_t multiplier = 0x9FB21C651E98DF25ULL;
  const auto rotated = [](std::uint64_t x, int by) { return x << by | x >> (64 - by); };
  const auto low = static_cast<std::uint32_t>(seed);
  const std::uint32_t swapped = low << 24 | (low & 0xFF00u) << 8 | (low >> 8 & 0xFF00u) | low >> 24;
  seed ^= std::uint64_t{swapped} << 32;
  std::uint64_t hash = rotated(word, 32) ^ (secret - seed);
  hash ^= rotated(hash, 49) ^ rotated(hash, 24);
  hash *= multiplier;
  hash ^= (hash >> 35) + sizeof word;
  hash *= multiplier;
  return hash ^ hash >> 28;
}

}  // namespace lockstep::base
