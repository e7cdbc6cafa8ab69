// The checksum of a chunk of rows: XXH3 (64 bits) over the bytes of the labels, seeded with XXH3
// over the bytes of the features, both as little-endian memory holds them. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "framework/base/hash.h"

namespace lockstep::data {

inline constexpr std::string_view checksums_name = "checksums";

inline std::uint64_t block_checksum(std::span<const std::byte> features,
                                    std::span<const std::int64_t> labels) {
  return base::hash64(std::as_bytes(labels), base::hash64(features));
}

}  // namespace lockstep::data
