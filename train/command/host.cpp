#include "train/command/host.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include "framework/base/error.h"

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

}  // namespace

DeviceChoice choose_device(const std::string& asked, int workers, bool oversubscribe) {
  const std::string plural = workers == 1 ? "" : "s";
  if (asked == "cuda") {
    throw StartupError(fmt::format(
        "asked for {} GPU{}, found 0: this build drives no GPUs; --device cpu trains with CPU "
        "workers{}",
        workers, plural,
        oversubscribe ? "" : ", and where there is a GPU --oversubscribe shares it"));
  }
  const std::string line = fmt::format("training with {} CPU worker{}", workers, plural);
  return {"cpu", asked == "auto" ? "no GPU found: " + line : line};
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
