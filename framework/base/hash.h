// Hashes, by xxHash (XXH3). Values are stable across machines of the same endianness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::base {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);

// 128 bits as 32 hexadecimal digits; for digests that a person compares.
std::string digest(std::span<const std::byte> bytes);

std::string to_hex(std::uint64_t value);  // 16 digits

}  // namespace lockstep::base
