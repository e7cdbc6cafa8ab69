// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011).
//
// A draw is a pure function of what it is for: (seed, purpose, step, position). Nothing here has
// state and nothing knows the rank, so any rank, thread or device computes the same value for the
// same draw.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "framework/base/xxh3.h"

namespace lockstep::base {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// The four words of one block of the stream with this key.
constexpr PhiloxCounter random_block(PhiloxKey key, std::uint64_t high, std::uint64_t low) {
  return philox4x32({static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                     static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)},
                    key);
}

// Uniform in [0, 1) with 24 bits, exact in float.
inline float uniform_from_bits(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1.0p-24f;
}

// One stream of draws, addressed by position.
class RandomStream {
 public:
  // `purpose` says what the draws are for ("init:fc1.weight", "dropout:drop", "shuffle"); `step`
  // separates the draws of one purpose in time (a training step, an epoch).
  RandomStream(std::uint64_t seed, std::string_view purpose, std::uint64_t step = 0);

  std::array<std::uint32_t, 4> block(std::uint64_t high, std::uint64_t low) const {
    return random_block(key_, high, low);
  }
  // Word `index` of the stream: word (index mod 4) of block (0, index / 4).
  std::uint32_t bits(std::uint64_t index) const { return block(0, index / 4)[index % 4]; }
  float uniform(std::uint64_t index) const { return uniform_from_bits(bits(index)); }
  double normal(
      std::uint64_t index) const;  // Box-Muller on the words 2*index, 2*index+1 of block (1, .)
  // Unbiased integer in [0, bound) (Lemire's method with rejection, further words from other
  // blocks).
  std::uint64_t below(std::uint64_t bound, std::uint64_t index) const;

  PhiloxKey key() const { return key_; }
  // What key() follows from, for kernels of a GPU that read the step when they run.
  std::uint64_t purpose() const { return purpose_; }  // and the seed, as a hash
  std::uint64_t step() const { return step_; }
  static constexpr PhiloxKey key_of(std::uint64_t purpose, std::uint64_t step) {
    const std::uint64_t key = hash64_of_word(step, purpose);
    return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  }

 private:
  std::uint64_t purpose_;
  std::uint64_t step_;
  PhiloxKey key_;
};

// A rank's randomness at this moment of training. `seed` and `step` are equal on all ranks;
// `first_row` is where row 0 of this rank's batch stands in the global batch, so that a draw for a
// sample does not depend on how the batch was sharded.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::int64_t first_row = 0;
};

}  // namespace lockstep::base
