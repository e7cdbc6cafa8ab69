#include "framework/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>
#ifdef LOCKSTEP_XXHASH_DISPATCHES
#include <xxh_x86dispatch.h>  // puts the fastest form that this processor has behind the same names
#endif

namespace lockstep::base {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  return hash64(std::as_bytes(std::span(text)), seed);
}

std::string digest(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return to_hex(hash.high64) + to_hex(hash.low64);
}

std::string to_hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace lockstep::base
