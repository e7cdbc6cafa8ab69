#include "framework/base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace lockstep::base {
namespace {

// The values of the xxHash distribution for the empty input.
TEST(Hash, KnownAnswers) {
  EXPECT_EQ(to_hex(hash64("")), "2d06800538d394c2");
  EXPECT_EQ(digest({}), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, TextAndBytesAgree) {
  const std::string_view text = "hidden.0.weight";
  EXPECT_EQ(hash64(text, 5), hash64(std::as_bytes(std::span(text)), 5));
  EXPECT_NE(hash64(text, 5), hash64(text, 6));
}

TEST(Hash, EveryBitCounts) {
  std::vector<std::byte> bytes(300);
  std::set<std::uint64_t> hashes{hash64(bytes)};
  std::set<std::string> digests{digest(bytes)};
  for (std::byte& byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::byte mask{static_cast<unsigned char>(1 << bit)};
      byte ^= mask;
      hashes.insert(hash64(bytes));
      digests.insert(digest(bytes));
      byte ^= mask;
    }
  }
  EXPECT_EQ(hashes.size(), 1 + 8 * bytes.size());
  EXPECT_EQ(digests.size(), 1 + 8 * bytes.size());
}

TEST(Hash, HexKeepsLeadingZeros) {
  EXPECT_EQ(to_hex(0), "0000000000000000");
  EXPECT_EQ(to_hex(0xABC), "0000000000000abc");
}

}  // namespace
}  // namespace lockstep::base
