#include "framework/kernels/digest.h"

#include "framework/base/hash.h"
#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

std::vector<std::uint16_t> random_words(Random& random, std::int64_t count) {
  std::vector<std::uint16_t> words(static_cast<std::size_t>(count));
  for (auto& word : words) word = static_cast<std::uint16_t>(random.integer(0, 0xFFFF));
  return words;
}

Tensor of_words(Context& context, const std::vector<std::uint16_t>& words) {
  return Tensor::from_host(context, std::as_bytes(std::span(words)),
                           {static_cast<std::int64_t>(words.size())}, DType::bfloat16);
}

std::int64_t digest_of(const Tensor& tensor, std::uint64_t seed) {
  const Tensor digest = Tensor::empty(tensor.context(), {1}, DType::int64);
  kernels.digest({{tensor}}, {{seed}}, digest);
  return digest.item<std::int64_t>();
}

// The definition, block by block.
std::int64_t expected_digest(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::uint64_t sum = 0;
  for (std::size_t begin = 0; begin < bytes.size(); begin += digest_block_bytes) {
    const auto block = bytes.subspan(begin, std::min(digest_block_bytes, bytes.size() - begin));
    std::vector<std::byte> filled(block.begin(), block.end());
    filled.resize(std::max(filled.size(), least_hashed_bytes));
    sum += base::hash64(filled, seed++);
  }
  return static_cast<std::int64_t>(sum);
}

// Every end that a hash treats by itself, and blocks more than one; two bytes off alignment too.
TEST(Digest, IsTheSumOfTheHashesOfBlocks) {
  const auto context = make_test_context(2);
  Random random(1);
  const std::int64_t lengths[] = {0,    1,    2,    3,    7,    31,    32,    120,   121,
                                  127,  128,  129,  159,  160,  511,   512,   513,   544,
                                  1023, 1024, 1025, 4000, 8191, 32767, 32768, 32769, 70001};
  for (const std::int64_t length : lengths)
    for (const std::int64_t shift : {0, 1, 2}) {
      const std::vector<std::uint16_t> words = random_words(random, length + shift);
      const Tensor tensor = of_words(*context, words).slice(0, shift, length + shift);
      const auto seed = static_cast<std::uint64_t>(random.integer(0, 1L << 62)) * 3;
      const auto bytes =
          std::as_bytes(std::span(words)).subspan(2 * static_cast<std::size_t>(shift));
      EXPECT_EQ(digest_of(tensor, seed), expected_digest(bytes, seed)) << length << " + " << shift;
    }
}

TEST(Digest, OfSeveralTensors) {
  const auto context = make_test_context(2);
  Random random(2);
  std::vector<Tensor> tensors;
  std::vector<std::uint64_t> seeds;
  std::vector<std::int64_t> expected;
  for (const std::int64_t count : {5, 0, 40'000, 256}) {
    tensors.push_back(random_tensor(*context, random, {count}, DType::float32));
    seeds.push_back(static_cast<std::uint64_t>(count) + 7);
    expected.push_back(digest_of(tensors.back(), seeds.back()));
  }
  const Tensor digests = Tensor::empty(*context, {4}, DType::int64);
  kernels.digest(tensors, seeds, digests);
  EXPECT_EQ(digests.to_vector<std::int64_t>(), expected);
}

TEST(Digest, OperandsThatDoNotFitAreRefused) {
  const auto context = make_test_context();
  const Tensor x = Tensor::empty(*context, {3, 4}),
               one = Tensor::empty(*context, {1}, DType::int64);
  EXPECT_THROW(kernels.digest({{x}}, {}, one), UsageError);
  EXPECT_THROW(kernels.digest({{x.transpose(0, 1)}}, {{1}}, one), UsageError);
  EXPECT_THROW(kernels.digest({{x}}, {{1}}, Tensor::empty(*context, {2}, DType::int64)),
               UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing
