#include "train/command/host.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/units.h"
#include "framework/device/cuda/cuda_context.h"

namespace lockstep::train {
namespace {

std::string numeric_address(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const bytes =
      address.sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return ::inet_ntop(address.sa_family, bytes, text.data(), text.size()) == nullptr ? ""
                                                                                    : text.data();
}

// An IPv4 address where there is one.
std::string address_of(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    throw StartupError(fmt::format("cannot list the network interfaces: {}", std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::set<std::string> names;
  std::string version_4;
  std::string version_6;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    names.insert(entry->ifa_name);
    if (interface != entry->ifa_name || entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET && version_4.empty()) version_4 = numeric_address(*entry->ifa_addr);
    if (family == AF_INET6 && version_6.empty()) version_6 = numeric_address(*entry->ifa_addr);
  }
  if (!names.contains(interface)) {
    throw ConfigError(fmt::format("comm.interface: found {}, expected one of {}", interface,
                                  fmt::join(names, ", ")));
  }
  if (version_4.empty() && version_6.empty()) {
    throw ConfigError(fmt::format("comm.interface: found {}, which has no IP address", interface));
  }
  return version_4.empty() ? version_6 : version_4;
}

// "cuda:0 NVIDIA H100 with 79.2 GiB".
std::string describe_gpu(int index) {
  const auto gpu = device::describe_cuda_device(index);
  return fmt::format("cuda:{} {} with {}", index, gpu.name, base::format_bytes(gpu.memory_bytes));
}

StartupError too_few_gpus(int gpus, int workers) {
  std::vector<std::string> found;
  for (int index = 0; index < gpus; ++index) found.push_back(describe_gpu(index));
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return StartupError(fmt::format(
      "asked for {} GPUs, found {}{}: {}; --oversubscribe lets several workers share one, "
      "--device cpu trains with CPU workers",
      workers, gpus,
      visible ? fmt::format(" that CUDA_VISIBLE_DEVICES={} leaves visible", visible) : "",
      fmt::join(found, ", ")));
}

DeviceChoice choose_gpus(const device::CudaDevices& gpus, int workers, bool oversubscribe) {
  if (workers > gpus.count && !oversubscribe) throw too_few_gpus(gpus.count, workers);
  DeviceChoice choice{"cuda", {}};
  choice.gpus = gpus.of_ranks(workers);
  const std::size_t used = choice.gpus.size();
  const std::string on =
      fmt::format("{} GPU{}, the first is {}", used, used == 1 ? "" : "s", describe_gpu(0));
  choice.line = "training on " + on;
  choice.shares_gpus = workers > gpus.count;
  if (choice.shares_gpus) choice.line = fmt::format("training with {} workers on {}", workers, on);
  return choice;
}

}  // namespace

DeviceChoice choose_device(const std::string& asked, int workers, bool oversubscribe) {
  const std::string workers_of_cpu =
      fmt::format("training with {} CPU worker{}", workers, workers == 1 ? "" : "s");
  if (asked == "cpu") return {"cpu", workers_of_cpu};
  const device::CudaDevices gpus = device::cuda_devices();
  if (gpus.count > 0) return choose_gpus(gpus, workers, oversubscribe);
  if (asked == "auto")
    return {"cpu", fmt::format("no GPU found ({}): {}", gpus.reason, workers_of_cpu)};
  throw StartupError(
      fmt::format("asked for {} GPU{}, found 0: {}; --device cpu trains with CPU workers{}",
                  workers, workers == 1 ? "" : "s", gpus.reason,
                  oversubscribe ? "" : ", and where there is a GPU --oversubscribe shares it"));
}

std::optional<Endpoint> choose_endpoint(const Config::Comm& comm) {
  if (comm.interface) return Endpoint{address_of(*comm.interface), comm.port.value_or(0)};
  if (comm.port) return Endpoint{"127.0.0.1", *comm.port};
  return std::nullopt;
}

std::vector<std::string> foreign_variables() {
  constexpr std::array<std::string_view, 6> names = {
      "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  constexpr std::array<std::string_view, 5> prefixes = {"SLURM_", "OMPI_", "PMI_", "PMIX_",
                                                        "TORCHELASTIC_"};
  std::vector<std::string> found;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::ranges::find(names, name) != names.end() ||
        std::ranges::any_of(prefixes, [&](auto prefix) { return name.starts_with(prefix); })) {
      found.emplace_back(name);
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace lockstep::train
