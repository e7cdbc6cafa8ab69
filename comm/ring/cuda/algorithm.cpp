#include "comm/ring/cuda/algorithm.h"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::comm::ring::cuda {

namespace {

constexpr std::array<std::pair<std::string_view, Algorithm>, 4> algorithm_names = {{
    {"auto", Algorithm::choose},
    {"ring", Algorithm::ring},
    {"one_shot", Algorithm::one_shot},
    {"two_shot", Algorithm::two_shot},
}};

// Up to how many bytes the low-latency algorithms are taken. Every rank receives (n - 1) times the
// data, doubled by the flags, in one_shot, 2 (n - 1) / n times, doubled too, in two_shot, and
// without flags in the ring, which crosses 2 (n - 1) links one after the other where they cross one
// and two.
struct Limits {
  int ranks;  // up to so many
  std::size_t one_shot, two_shot;
};
constexpr std::array<Limits, 4> limits = {{
    {2, 128 << 10, 128 << 10},
    {4, 32 << 10, 256 << 10},
    {8, 16 << 10, 512 << 10},
    {most_ranks, 8 << 10, 512 << 10},
}};

}  // namespace

Algorithm algorithm_from_name(std::string_view name) {
  for (const auto& [known, algorithm] : algorithm_names)
    if (known == name) return algorithm;
  std::vector<std::string_view> known;
  for (const auto& [word, algorithm] : algorithm_names) known.push_back(word);
  throw ConfigError(fmt::format("comm.algorithm: found \"{}\", expected one of {} between GPUs",
                                name, fmt::join(known, ", ")));
}

std::string_view name_of(Algorithm algorithm) {
  for (const auto& [name, known] : algorithm_names)
    if (known == algorithm) return name;
  return {};
}

Algorithm choose_algorithm(std::size_t bytes, int ranks) {
  std::size_t row = 0;
  while (limits[row].ranks < ranks) ++row;
  if (bytes <= limits[row].one_shot) return Algorithm::one_shot;
  return bytes <= limits[row].two_shot ? Algorithm::two_shot : Algorithm::ring;
}

std::size_t capacity_of(Algorithm algorithm, const Layout& layout) {
  const auto packs = static_cast<std::size_t>(layout.shape.packs);
  const std::size_t octets =
      algorithm == Algorithm::one_shot ? packs : packs / 2 * static_cast<std::size_t>(layout.ranks);
  return octets * 8 * static_cast<std::size_t>(layout.shape.channels);
}

}  // namespace lockstep::comm::ring::cuda
