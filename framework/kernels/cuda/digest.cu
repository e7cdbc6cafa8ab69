// XXH3 with a seed (Collet: xxHash, "XXH3 algorithm overview") of inputs that are longer than 240
// bytes, a warp for each block. The hash keeps eight sums of 64 bits, mixed after every 1,024
// bytes; in between, what the 16 stripes of 64 bytes add may be added in any order. So lane i + 8 *
// g has sum i, and word i of the stripes g, g + 4, ... of each kilobyte.
#include "framework/kernels/cuda/digest.h"

#include "framework/base/division.h"
#include "framework/kernels/cuda/team.cuh"
#include "framework/kernels/operations.h"

namespace lockstep::kernels::cuda {
namespace {

constexpr std::int64_t block_bytes = digest_block_bytes, least_bytes = least_hashed_bytes;

constexpr int sums = 8, groups = 4;
constexpr int stripes = 16;  // of a kilobyte
constexpr std::int64_t stripe_bytes = 64, kilobyte = stripes * stripe_bytes;

constexpr std::uint64_t prime32_1 = 0x9E3779B1, prime32_2 = 0x85EBCA77, prime32_3 = 0xC2B2AE3D;
constexpr std::uint64_t prime64_1 = 0x9E3779B185EBCA87, prime64_2 = 0xC2B2AE3D27D4EB4F,
                        prime64_3 = 0x165667B19E3779F9, prime64_4 = 0x85EBCA77C2B2AE63,
                        prime64_5 = 0x27D4EB2F165667C5;

// The algorithm's constants, an argument of the kernel so that lanes can index them.
struct HashConstants {
  std::uint64_t secret[24] = {
      0xBE4BA423396CFEB8, 0x1CAD21F72C81017C, 0xDB979083E96DD4DE, 0x1F67B3B7A4A44072,
      0x78E5C0CC4EE679CB, 0x2172FFCC7DD05A82, 0x8E2443F7744608B8, 0x4C263A81E69035E0,
      0xCB00C391BB52283C, 0xA32E531B8B65D088, 0x4EF90DA297486471, 0xD8ACDEA946EF1938,
      0x3F349CE33F76FAA8, 0x1D4F0BC7C7BBDCF9, 0x3159B4CD4BE0518A, 0x647378D9C97E9FC8,
      0xC3EBD33483ACC5EA, 0xEB6313FAFFA081C5, 0x49DAF0B751DD0D17, 0x9E68D429265516D3,
      0xFCA1477D58BE162B, 0xCE31D07AD1B8F88F, 0x280416958F3ACB45, 0x7E404BBBCAFBD7AF};
  std::uint64_t start[sums] = {prime32_3, prime64_1, prime64_2, prime64_3,
                               prime64_4, prime32_2, prime64_5, prime32_1};
};

// Eight bytes at an offset, zeros where the bytes have ended.
__device__ std::uint64_t word_at(const std::uint8_t* bytes, std::int64_t size,
                                 std::int64_t offset) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes + offset);
  if (offset + 8 <= size) {
    if (address % 8 == 0) return *reinterpret_cast<const std::uint64_t*>(bytes + offset);
    if (address % 4 == 0) {
      const auto* const half = reinterpret_cast<const std::uint32_t*>(bytes + offset);
      return half[0] | std::uint64_t{half[1]} << 32;
    }
  }
  std::uint64_t word = 0;
  for (int i = 0; i < 8 && offset + i < size; ++i) {
    word |= std::uint64_t{bytes[offset + i]} << 8 * i;
  }
  return word;
}

// One lane of the warp that hashes a block.
class HashLane {
 public:
  __device__ HashLane(const HashConstants& constants, std::uint64_t seed, int lane)
      : constants_(constants), seed_(seed), i_(lane % sums), group_(lane / sums) {
#pragma unroll
    for (int t = 0; t < stripes / groups; ++t) keys_[t] = secret(t * groups + group_ + i_);
  }

  // The same in every lane.
  __device__ std::uint64_t operator()(const std::uint8_t* bytes, std::int64_t size) const {
    const std::int64_t length = size < least_bytes ? least_bytes : size;
    const std::int64_t whole = (length - 1) / kilobyte;  // kilobytes
    std::uint64_t sum = constants_.start[i_];
    for (std::int64_t k = 0; k < whole; ++k) {
      Added added;
      add_stripes(added, bytes, size, k * kilobyte, stripes);
      sum += all_of(added);
      sum = (sum ^ sum >> 47 ^ secret(16 + i_)) * prime32_1;
    }
    Added added;
    const auto rest = static_cast<int>((length - 1) / stripe_bytes - whole * stripes);
    add_stripes(added, bytes, size, whole * kilobyte, rest);
    if (group_ == 0) {  // the last 64 bytes, which may have been read already
      added.add(word_at(bytes, size, length - stripe_bytes + 8 * i_), secret_at(15 + i_, 1));
    }
    return merged(sum + all_of(added), static_cast<std::uint64_t>(length));
  }

 private:
  // What stripes add to this lane's sum, and to its neighbour's.
  struct Added {
    std::uint64_t own = 0, neighbour = 0;
    __device__ void add(std::uint64_t word, std::uint64_t key) {
      const std::uint64_t mixed = word ^ key;
      own += (mixed & 0xFFFFFFFF) * (mixed >> 32);
      neighbour += word;
    }
  };

  __device__ std::uint64_t secret(int word) const {
    return constants_.secret[word] + (word % 2 == 0 ? seed_ : 0 - seed_);
  }
  // So many bytes, 1 to 7, behind a word.
  __device__ std::uint64_t secret_at(int word, int behind) const {
    return secret(word) >> 8 * behind | secret(word + 1) << (64 - 8 * behind);
  }

  __device__ void add_stripes(Added& added, const std::uint8_t* bytes, std::int64_t size,
                              std::int64_t begin, int count) const {
#pragma unroll
    for (int t = 0; t < stripes / groups; ++t) {
      const int stripe = t * groups + group_;
      if (stripe < count) {
        added.add(word_at(bytes, size, begin + stripe * stripe_bytes + 8 * i_), keys_[t]);
      }
    }
  }

  __device__ static std::uint64_t from_lane(std::uint64_t value, int distance) {
    return __shfl_xor_sync(device::full_warp, value, distance);
  }
  __device__ static std::uint64_t all_of(const Added& added) {
    std::uint64_t total = added.own + from_lane(added.neighbour, 1);
    for (int distance = sums; distance < device::warp_size; distance *= 2) {
      total += from_lane(total, distance);
    }
    return total;
  }

  __device__ std::uint64_t merged(std::uint64_t sum, std::uint64_t length) const {
    const std::uint64_t mixed = sum ^ secret_at(1 + i_, 3);
    const auto product = static_cast<unsigned __int128>(mixed) * from_lane(mixed, 1);
    std::uint64_t folded =
        static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    for (int distance = 2; distance < sums; distance *= 2) folded += from_lane(folded, distance);
    std::uint64_t hash = length * prime64_1 + folded;
    hash = (hash ^ hash >> 37) * 0x165667919E3779F9;
    return hash ^ hash >> 32;
  }

  const HashConstants& constants_;
  std::uint64_t seed_;
  int i_, group_;
  std::uint64_t keys_[stripes / groups];
};

__global__ void add_block_hashes(HashConstants constants, const std::uint8_t* bytes,
                                 std::int64_t size, std::uint64_t seed,
                                 unsigned long long* digest) {
  const Team<1> team;
  const std::int64_t blocks = base::ceil_div(size, block_bytes);
  for (std::int64_t block = team.first_row(); block < blocks; block += team.row_step()) {
    const HashLane hash(constants, seed + static_cast<std::uint64_t>(block), team.lane());
    const std::int64_t begin = block * block_bytes, left = size - begin;
    const std::uint64_t value = hash(bytes + begin, left < block_bytes ? left : block_bytes);
    if (team.lane() == 0) atomicAdd(digest, static_cast<unsigned long long>(value));
  }
}

}  // namespace

void launch_digest(const device::CudaStream& stream, const void* bytes, std::int64_t size,
                   std::uint64_t seed, unsigned long long* digest) {
  if (size == 0) return;
  device::launch(stream, {blocks_for_rows<1>(base::ceil_div(size, block_bytes)), block_threads},
                 add_block_hashes, HashConstants{}, static_cast<const std::uint8_t*>(bytes), size,
                 seed, digest);
}

}  // namespace lockstep::kernels::cuda
