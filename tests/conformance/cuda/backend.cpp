// The backends between GPUs, real or emulated, under the conformance suite. Ranks are threads.
#include "tests/conformance/backend.h"

#include <algorithm>

#include "comm/hierarchical/ring_nccl.h"
#include "comm/nccl/nccl.h"
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

Backend ring() {
  return {.name = "ring_gpus",
          .kind = RankKind::threads,
          .algorithms = {"ring", "one_shot", "two_shot"},
          .make = [](Rank& rank, const comm::CommunicatorOptions& options) {
            return std::make_unique<comm::ring::cuda::CudaRingCommunicator>(
                rank.join("ring", rank.index(), rank.size()), device_of(rank), options,
                small_shape);
          }};
}

comm::NcclPlace nccl_place(const Rank& rank) {
  return {.rank = rank.index(),
          .size = rank.size(),
          .device = {DeviceKind::cuda, device_of(rank)},
          .prefix = "comm",
          .interface = std::nullopt,
          .start_timeout = std::chrono::seconds(30)};
}

// A GPU for each rank; the emulation has eight.
Backend over_nccl(std::string name, decltype(Backend::make) make) {
  return {.name = std::move(name),
          .kind = RankKind::threads,
          .algorithms = {"auto"},
          .make = std::move(make),
          .largest_world = 8,
          .missing = [](int world) {
            return world > device::cuda_devices().count
                       ? std::string("NCCL needs a GPU for each rank")
                       : comm::missing_nccl();
          }};
}

Backend nccl() {
  return over_nccl("nccl_gpus", [](Rank& rank, const comm::CommunicatorOptions& options) {
    return comm::make_nccl_communicator(rank.store(), nccl_place(rank), options);
  });
}

// On as few hosts as divide the ranks evenly, imitated, and not of neighbouring ranks.
comm::HostMap hosts_of(int world) {
  int hosts = std::min(world, 2);
  while (world % hosts != 0) ++hosts;
  std::vector<std::string> by_rank;
  for (int rank = 0; rank < world; ++rank) by_rank.push_back(std::to_string(rank % hosts));
  return comm::HostMap(std::move(by_rank));
}

Backend ring_nccl() {
  return over_nccl("ring_nccl_gpus", [](Rank& rank, const comm::CommunicatorOptions& options) {
    comm::HostMap hosts = hosts_of(rank.size());
    const int own = hosts.host_of(rank.index());
    auto host = rank.join("host" + std::to_string(own), hosts.place_of(rank.index()),
                          static_cast<int>(hosts.ranks_of(own).size()));
    return comm::make_ring_nccl_communicator(std::move(host), std::move(hosts), rank.store(),
                                             nccl_place(rank), options, small_shape);
  });
}

}  // namespace

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = [] {
    std::vector<Backend> made = {ring()};
    if (comm::has_nccl()) {
      made.push_back(nccl());
      made.push_back(ring_nccl());
    }
    return made;
  }();
  return all;
}

// The emulation has eight GPUs: the first of them has two of nine ranks.
std::vector<int> all_worlds() {
  return {1, 2, 3, 4, 5, 6, 7, 8, 9};
}

bool is_quick(const Form& form) {
  // Three ranks are on as many hosts.
  return form.world == (form.backend->name == "ring_nccl_gpus" ? 4 : 3);
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
