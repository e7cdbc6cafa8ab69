// The emulation's own random numbers (SplitMix64, Steele et al. 2014): small, fast, and of no other
// use than to choose what goes next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::emulation {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // In [0, bound).
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  // True once in `odds` times.
  bool once_in(std::size_t odds) { return below(odds) == 0; }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep::emulation
