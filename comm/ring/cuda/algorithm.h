// Which algorithm an all_reduce between GPUs takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "comm/ring/cuda/world.h"

namespace lockstep::comm::ring::cuda {

enum class Algorithm : std::uint8_t { choose, ring, one_shot, two_shot };

// "auto", "ring", "one_shot", "two_shot". Throws ConfigError for others.
Algorithm algorithm_from_name(std::string_view name);
std::string_view name_of(Algorithm algorithm);

// For `bytes` of data. From a table that has not been measured yet: what is in it follows from the
// bytes that an algorithm moves and the times it crosses a link.
Algorithm choose_algorithm(std::size_t bytes, int ranks);

// Bytes that one kernel of a low-latency algorithm takes.
std::size_t capacity_of(Algorithm algorithm, const Layout& layout);

}  // namespace lockstep::comm::ring::cuda
