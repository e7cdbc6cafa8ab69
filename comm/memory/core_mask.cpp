#include "comm/memory/core_mask.h"

#include <sched.h>

#include <bit>

namespace lockstep::comm {

CoreMask CoreMask::of_this_thread() {
  CoreMask mask;
  // The kernel wants room for every core that the machine could have.
  constexpr std::size_t room = 8192;
  std::array<std::uint64_t, room / 64> all{};
  if (sched_getaffinity(0, sizeof all, reinterpret_cast<cpu_set_t*>(all.data())) == 0)
    for (std::size_t w = 0; w < mask.words.size(); ++w) mask.words[w] = all[w];
  if (mask.count() == 0) mask.words[0] = 1;
  return mask;
}

int CoreMask::count() const {
  int cores = 0;
  for (const std::uint64_t word : words) cores += std::popcount(word);
  return cores;
}

void CoreMask::add(const CoreMask& other) {
  for (std::size_t w = 0; w < words.size(); ++w) words[w] |= other.words[w];
}

}  // namespace lockstep::comm
