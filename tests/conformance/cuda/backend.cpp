// The ring between GPUs, real or emulated, under the conformance suite. Ranks are threads.
#include "tests/conformance/backend.h"

#include "comm/ring/cuda/cuda_ring_communicator.h"
#include "framework/device/cuda/cuda_context.h"

namespace lockstep::tests {

namespace {

// Little memory and few threads, so that all loops make several rounds with little data.
constexpr comm::ring::cuda::Shape small_shape = {
    .channels = 2, .threads = 32, .slot_bytes = 640, .packs = 32};

int device_of(const Rank& rank) {
  return rank.index() % device::cuda_devices().count;
}

}  // namespace

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = {
      {.name = "ring_gpus",
       .kind = RankKind::threads,
       .algorithms = {"ring", "one_shot", "two_shot"},
       .make = [](Rank& rank, const comm::CommunicatorOptions& options) {
         return std::make_unique<comm::ring::cuda::CudaRingCommunicator>(
             rank.join("ring", rank.index(), rank.size()), device_of(rank), options, small_shape);
       }}};
  return all;
}

// The emulation has eight GPUs: the first of them has two of nine ranks.
std::vector<int> all_worlds() {
  return {1, 2, 3, 4, 5, 6, 7, 8, 9};
}

bool is_quick(const Form& form) {
  return form.world == 3;
}

Place make_place(const Rank& rank) {
  auto gpu = device::make_cuda_context(device_of(rank), rank.index());
  auto stream = gpu->make_stream("communication");
  return {std::move(gpu), std::move(stream)};
}

std::int64_t many(std::int64_t count) {
  return count / 16;
}

}  // namespace lockstep::tests
