#include "comm/backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/gloo/gloo.h"
#include "comm/hierarchical/hierarchical_transport.h"
#include "comm/hierarchical/host_map.h"
#include "comm/hierarchical/ring_nccl.h"
#include "comm/message/message_communicator.h"
#include "comm/mpi/mpi.h"
#include "comm/mpi/seats.h"
#include "comm/nccl/nccl.h"
#include "comm/ring/ring.h"

namespace lockstep::comm {
namespace {

template <class List, class T>
bool contains(const List& list, const T& wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

auto measured(const CostModel& cost) {
  return [cost](std::span<const int>) {
    return CostEstimate{cost, "rounded from benchmarks/README.md"};
  };
}

CostEstimate assumed(const CostModel& cost, const std::string& link) {
  return {cost, fmt::format("assumed for {} by its data sheet, not measured; "
                            "`all_reduce --device cuda` of the benchmarks measures",
                            link)};
}

CostEstimate cost_of_ring(std::span<const int> gpus) {
  if (gpus.empty()) return measured(ring_cost)(gpus);
  const auto link = slowest_link(gpus);
  return assumed(cost_between_gpus(link), link == device::PeerLink::pcie ? "PCIe 4"
                                          : link == device::PeerLink::nvlink
                                              ? "NVLink 3"
                                              : "one GPU as NVLink 3");
}

std::string nothing_missing() {
  return {};
}

HostMap hosts_of(const BackendPlace& place, const std::string& prefix) {
  return exchange_hosts(place.store, prefix, place.rank, place.size,
                        place.host.empty() ? this_host() : place.host, place.start_timeout);
}

// The ranks of this one's host.
std::unique_ptr<Group> join_own_host(const BackendPlace& place, const HostMap& hosts) {
  const int own = hosts.host_of(place.rank);
  return place.join(fmt::format("host{}", own), hosts.place_of(place.rank),
                    static_cast<int>(hosts.ranks_of(own).size()));
}

// Joins the ranks of each host; `across` connects all.
std::unique_ptr<Transport> connect_hierarchical(const BackendPlace& place,
                                                std::chrono::milliseconds timeout,
                                                std::unique_ptr<Transport> across) {
  HostMap hosts = hosts_of(place, place.prefix);
  try {
    auto inside = make_ring_communicator(join_own_host(place, hosts), {.timeout = timeout});
    return std::make_unique<HierarchicalTransport>(std::move(across), std::move(inside),
                                                   std::move(hosts), place.store, place.prefix,
                                                   device::Clock::now() + place.start_timeout);
  } catch (const TransportError& error) {
    throw StartupError(error.what());
  } catch (const RankError& error) {
    throw StartupError(error.what());
  }
}

Backend own_ring() {
  return {.name = "ring",
          .summary = "the project's own, for ranks of one host",
          .algorithms = {"auto", "ring", "two_shot", "one_shot", "halving_doubling",
                         "reduce_broadcast"},
          .gpu_algorithms = {"auto", "ring", "two_shot", "one_shot"},
          .devices = {DeviceKind::cpu, DeviceKind::cuda},
          .needs_peer_access = true,
          .missing = nothing_missing,
          .cost = cost_of_ring,
          .make = [](const BackendPlace& place, const CommunicatorOptions& options) {
            auto group = place.join("ring", place.rank, place.size);
            return place.device.kind == DeviceKind::cuda
                       ? make_cuda_ring_communicator(std::move(group), place.device.index, options)
                       : make_ring_communicator(std::move(group), options);
          }};
}

NcclPlace nccl_place(const BackendPlace& place) {
  return {.rank = place.rank,
          .size = place.size,
          .device = place.device,
          .prefix = place.prefix,
          .interface = place.interface,
          .start_timeout = place.start_timeout};
}

Backend nccl() {
  return {.name = "nccl",
          .summary = "NVIDIA's, between GPUs",
          .algorithms = {"auto"},
          .devices = {DeviceKind::cuda},
          .ranks_can_share_gpus = false,
          .built_in = has_nccl(),
          .missing = missing_nccl,
          .cost = [](std::span<const int>) { return assumed(pcie_cost, "PCIe 4"); },
          .make =
              [](const BackendPlace& place, const CommunicatorOptions& options) {
                return make_nccl_communicator(place.store, nccl_place(place), options);
              }};
}

// All ranks as a group, where they are on one host; nullptr otherwise.
std::unique_ptr<Group> join_one_host(const BackendPlace& place) {
  const bool one_host = hosts_of(place, place.prefix + "/meeting").hosts() == 1;
  return one_host ? place.join("meeting", place.rank, place.size) : nullptr;
}

// `backend` with what makes a communicator of its connections.
Backend passing_messages(Backend backend) {
  backend.make = [connect = backend.connect](const BackendPlace& place,
                                             const CommunicatorOptions& options) {
    auto connections = connect(place, options);
    return std::make_unique<MessageCommunicator>(std::move(connections), place.store, place.prefix,
                                                 options, place.start_timeout,
                                                 join_one_host(place));
  };
  return backend;
}

Backend gloo() {
  return passing_messages(
      {.name = "gloo",
       .summary = "over TCP",
       .algorithms = {"auto", "ring", "bcube"},
       .devices = {DeviceKind::cpu},
       .built_in = has_gloo(),
       .missing = nothing_missing,
       .cost = measured(gloo_cost),
       .make = nullptr,
       .connect = [](const BackendPlace& place, const CommunicatorOptions& options) {
         return connect_gloo(place.store,
                             {.rank = place.rank,
                              .size = place.size,
                              .prefix = place.prefix,
                              .interface = place.interface,
                              .start_timeout = place.start_timeout},
                             options.algorithm);
       }});
}

Backend mpi() {
  return passing_messages(
      {.name = "mpi",
       .summary = "whatever MPI is installed",
       .algorithms = {"auto"},
       .devices = {DeviceKind::cpu},
       .ranks_can_be_threads = false,
       .takes_mpi_seats = true,
       .built_in = has_mpi_module(),
       .missing = [] { return has_mpirun() ? "" : "there is no mpirun in PATH"; },
       .cost = measured(message_cost),
       .make = nullptr,
       .connect =
           [](const BackendPlace& place, const CommunicatorOptions&) {
             // MPI's start blocks until all ranks are there: who is not is found out before.
             hosts_of(place, place.prefix + "/mpi");
             return connect_mpi(place.store, {.rank = place.rank,
                                              .size = place.size,
                                              .start_timeout = place.start_timeout,
                                              .on_stuck = place.on_stuck});
           }});
}

// The own ring inside each host, `across` between hosts.
Backend hierarchical(const Backend& across) {
  Backend backend = across;
  backend.name = "ring+" + across.name;
  backend.summary = fmt::format("ring inside each host, {} between hosts", across.name);
  backend.connect = [connect = across.connect](const BackendPlace& place,
                                               const CommunicatorOptions& options) {
    return connect_hierarchical(place, options.timeout, connect(place, options));
  };
  return passing_messages(std::move(backend));
}

// The same between GPUs.
Backend ring_nccl() {
  Backend backend = nccl();
  backend.name = "ring+nccl";
  backend.summary = "ring inside each host, nccl between hosts";
  backend.needs_peer_access = true;
  backend.needs_even_hosts = true;
  backend.make = [](const BackendPlace& place, const CommunicatorOptions& options) {
    HostMap hosts = hosts_of(place, place.prefix + "/hosts");
    auto host = join_own_host(place, hosts);
    return make_ring_nccl_communicator(std::move(host), std::move(hosts), place.store,
                                       nccl_place(place), options);
  };
  return backend;
}

std::string list_of_built_in() {
  std::vector<std::string> names = {"auto"};
  for (const Backend& backend : backends())
    if (backend.built_in) names.push_back(backend.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool reach_each_other(const BackendWish& wish) {
  return wish.device == DeviceKind::cpu || wish.workers == 1 || wish.gpus_have_peer_access;
}

// "ring, gloo": what serves the devices.
std::string list_for(const BackendWish& wish) {
  std::vector<std::string> names;
  for (const Backend& backend : backends())
    if (backend.built_in && contains(backend.devices, wish.device) &&
        (!backend.needs_peer_access || reach_each_other(wish)))
      names.push_back(backend.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

void check_choice(const Backend& backend, const BackendWish& wish) {
  const std::string& name = backend.name;
  const auto& algorithms = backend.algorithms_on(wish.device);
  if (!contains(algorithms, wish.algorithm))
    throw ConfigError(
        fmt::format("comm.algorithm: found {}, expected one of {} for the backend {}{}",
                    wish.algorithm, fmt::join(algorithms, ", "), name,
                    contains(backend.algorithms, wish.algorithm) ? " between GPUs" : ""));
  if (wish.ranks_are_threads && !backend.ranks_can_be_threads)
    throw ConfigError(fmt::format(
        "comm.backend: {} needs ranks that are processes, found --launcher threads", name));
  if (backend.needs_even_hosts && wish.workers != wish.hosts * wish.most_workers_on_host)
    throw ConfigError(fmt::format(
        "comm.backend: {} needs as many workers on every host, found {} on {} hosts with up to {} "
        "on each",
        name, wish.workers, wish.hosts, wish.most_workers_on_host));
  if (wish.workers_share_gpus && !backend.ranks_can_share_gpus)
    throw StartupError(
        fmt::format("backend {} takes a GPU for each worker, found several workers on one", name));
  if (const std::string missing = backend.missing(); !missing.empty())
    throw StartupError(fmt::format("backend {} cannot work here: {}; on this device there are: {}",
                                   name, missing, list_for(wish)));
  if (!contains(backend.devices, wish.device))
    throw StartupError(fmt::format("backend {} does not serve ranks on {}; those that do: {}", name,
                                   wish.device == DeviceKind::cpu ? "the CPU" : "GPUs",
                                   list_for(wish)));
  if (backend.needs_peer_access && !reach_each_other(wish))
    throw StartupError(fmt::format(
        "backend {} cannot work here: the GPUs cannot address each other's memory (which "
        "`nvidia-smi topo -p2p r` shows); on this device there are: {}",
        name, list_for(wish)));
}

}  // namespace

std::span<const Backend> backends() {
  static const std::vector<Backend> all = {
      own_ring(), nccl(), gloo(), mpi(), hierarchical(gloo()), hierarchical(mpi()), ring_nccl()};
  return all;
}

const Backend& find_backend(const std::string& name) {
  for (const Backend& backend : backends()) {
    if (backend.name != name) continue;
    if (backend.built_in) return backend;
    throw ConfigError(fmt::format("comm.backend: {} is not in this build, which has {}", name,
                                  list_of_built_in()));
  }
  throw ConfigError(
      fmt::format("comm.backend: found {}, expected one of {}", name, list_of_built_in()));
}

std::vector<std::string> backend_words() {
  std::vector<std::string> words = {"auto"};
  for (const Backend& backend : backends()) words.push_back(backend.name);
  return words;
}

std::vector<std::string> algorithm_words() {
  std::vector<std::string> words;
  for (const Backend& backend : backends())
    for (const std::string& algorithm : backend.algorithms)
      if (!contains(words, algorithm)) words.push_back(algorithm);
  return words;
}

BackendChoice choose_automatically(const BackendWish& wish, std::span<const Backend> backends) {
  const auto serves = [&](std::string_view name) {
    return std::any_of(backends.begin(), backends.end(), [&](const Backend& backend) {
      return backend.name == name && backend.built_in && contains(backend.devices, wish.device);
    });
  };
  const std::string several = fmt::format("are on {} hosts", wish.hosts);
  if (wish.device == DeviceKind::cpu) {
    if (wish.hosts > 1) return {"ring+gloo", "auto: the workers " + several};
    return {"ring", "auto: the workers are on the CPUs of one host and share its memory"};
  }
  if (wish.hosts > 1) return {"nccl", "auto: the GPUs " + several};
  if (!reach_each_other(wish)) return {"nccl", "auto: the GPUs cannot address each other's memory"};
  if (serves("ring")) return {"ring", "auto: the GPUs of one host address each other's memory"};
  return {"nccl", "auto: the ring of this build does not serve GPUs"};
}

BackendChoice choose_backend(const BackendWish& wish) {
  if (wish.backend != "auto") {
    check_choice(find_backend(wish.backend), wish);
    return {wish.backend, "as asked for"};
  }
  const BackendChoice choice = choose_automatically(wish, backends());
  const auto why = [&](const Error& error) {
    return fmt::format("{} ({} was chosen by {})", error.what(), choice.name, choice.reason);
  };
  try {
    check_choice(find_backend(choice.name), wish);
  } catch (const ConfigError& error) {
    throw ConfigError(why(error));
  } catch (const StartupError& error) {
    throw StartupError(why(error));
  }
  return choice;
}

}  // namespace lockstep::comm
