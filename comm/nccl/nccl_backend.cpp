// From the wish for NCCL to a communicator, with one message for each piece that may be missing.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "comm/hierarchical/host_map.h"
#include "comm/nccl/nccl.h"
#include "comm/nccl/nccl_communicator.h"
#include "framework/device/cuda/cuda_context.h"

namespace lockstep::comm {
namespace {

// Read by NCCL when it is first used. What the user has set goes before it.
void choose_interface(const std::optional<std::string>& interface) {
  ::setenv("NCCL_SOCKET_IFNAME", interface ? ("=" + *interface).c_str() : "lo", 0);
}

// The same for two ranks exactly when they use the same GPU.
std::string gpu_identity(int device) {
  std::array<char, 32> bus{};
  device::check_cuda(cudaDeviceGetPCIBusId(bus.data(), bus.size(), device), "cudaDeviceGetPCIBusId",
                     {.device = device, .rank = -1});
  return this_boot() + " " + bus.data();
}

}  // namespace

bool has_nccl() {
  return true;
}

std::string missing_nccl() {
  try {
    NcclLibrary::load();
  } catch (const StartupError& error) {
    return error.what();
  }
  return device::cuda_devices().reason;
}

std::string make_nccl_id() {
  choose_interface(std::nullopt);
  const auto library = NcclLibrary::load();
  ncclUniqueId id;
  if (const ncclResult_t result = library->get_unique_id(&id); result != ncclSuccess)
    throw StartupError("backend nccl: " + library->describe("ncclGetUniqueId", result));
  return std::string(id.internal, sizeof id.internal);
}

std::unique_ptr<NcclCommunicator> connect_nccl(Store& store, const NcclPlace& place,
                                               const CommunicatorOptions& options) {
  if (options.algorithm != "auto")
    throw ConfigError(fmt::format(
        "comm.algorithm: found \"{}\", expected auto for the backend nccl", options.algorithm));
  if (place.device.kind != DeviceKind::cuda)
    throw StartupError("backend nccl: its ranks are GPUs, this one is on the CPU");
  choose_interface(place.interface);
  auto library = NcclLibrary::load();
  if (const std::string reason = device::cuda_devices().reason; !reason.empty())
    throw StartupError("backend nccl: there is no GPU: " + reason);
  device::check_cuda(cudaSetDevice(place.device.index), "cudaSetDevice",
                     {place.device.index, place.rank});
  require_own_gpus(store, place, gpu_identity(place.device.index));
  return std::make_unique<NcclCommunicator>(
      std::move(library), store, place, options,
      std::make_shared<FirstCause>(store, place.prefix + "/cause"));
}

std::unique_ptr<Communicator> make_nccl_communicator(Store& store, const NcclPlace& place,
                                                     const CommunicatorOptions& options) {
  return connect_nccl(store, place, options);
}

}  // namespace lockstep::comm
