#include "comm/ring/cuda/channel.cuh"
#include "comm/ring/cuda/kernels.h"
#include "framework/device/cuda/occupancy.h"

namespace lockstep::comm::ring::cuda {
namespace {

// What a rank vouches with; never 0 but by a chance of 2^-64. (The finaliser of SplitMix64.)
__device__ std::uint64_t voucher(std::uint64_t epoch, int rank) {
  std::uint64_t x = epoch * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(rank) + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The words of so few ranks are one thread's work.
__global__ void vouch_kernel(World world, VoucherWords words) {
  const std::uint64_t epoch = *words.epoch + 1;
  *words.epoch = epoch;
  // Whatever the host left out or ended, it has said so before.
  const bool well =
      device::load_acquire(&world.control->abort) == 0 && device::load_relaxed(world.failed) == 0;
  for (int rank = 0; rank < words.count; ++rank) {
    words.words[rank] = well && rank == words.own ? voucher(epoch, rank) : 0;
  }
}

__global__ void require_vouched_kernel(World world, VoucherWords words, Signature call) {
  const std::uint64_t epoch = *words.epoch;
  int missing = 0;
  while (missing < words.count && words.words[missing] == voucher(epoch, missing)) ++missing;
  const bool all_vouch = missing == words.count;
  // Kernels do not fail by themselves for an abort that they need not wait to see.
  const bool aborted = device::load_acquire(&world.control->abort) != 0;
  if ((all_vouch && !aborted) || !is_first_to_fail(world)) return;
  world.control->signatures[world.rank] = call;
  tell(world, all_vouch || aborted ? Outcome::aborted : Outcome::not_vouched, missing);
}

}  // namespace

void launch_vouch(const device::CudaStream& stream, const World& world, const VoucherWords& words) {
  device::launch(stream, {1, 1}, vouch_kernel, world, words);
}

void launch_require_vouched(const device::CudaStream& stream, const World& world,
                            const VoucherWords& words, const Signature& call) {
  device::launch(stream, {1, 1}, require_vouched_kernel, world, words, call);
}

void load_voucher_kernels(const device::CudaStream& stream) {
  device::load_kernel(stream, vouch_kernel);
  device::load_kernel(stream, require_vouched_kernel);
}

}  // namespace lockstep::comm::ring::cuda
