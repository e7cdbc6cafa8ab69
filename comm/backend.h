// The backends: what there is, which one fits a run, and how a rank's communicator is made of it.
//
// The one place that knows all backends. A new one adds a row to the table in backend.cpp,
// from which the conformance suite takes it too.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/memory/group.h"
#include "comm/message/transport.h"
#include "comm/store/store.h"

namespace lockstep::comm {

// Where a rank's communicator is made.
struct BackendPlace {
  int rank = 0;
  int size = 1;
  Device device;
  Store& store;  // outlives the communicator
  // Ranks of one host as a group that shares memory, in which this one is `rank` of `size`;
  // collective over them. Each name once.
  std::function<std::unique_ptr<Group>(const std::string& name, int rank, int size)> join;
  std::string prefix;                    // of keys in the store: of this job and attempt
  std::optional<std::string> interface;  // none: the loopback
  std::chrono::milliseconds start_timeout{60'000};
  std::string host = {};  // ranks of the same share memory; empty: the one that this process is on
  // Called on another thread when the start has passed its timeout and the backend cannot end it:
  // somebody outside has to end this rank.
  std::function<void(const std::exception&)> on_stuck = nullptr;
};

struct CostEstimate {
  CostModel cost;
  std::string source;  // where it is from, in words
};

struct Backend {
  std::string name;
  std::string summary;                           // half a sentence, for lists
  std::vector<std::string> algorithms;           // of all_reduce, "auto" first
  std::vector<std::string> gpu_algorithms = {};  // between GPUs, where they are fewer
  std::vector<DeviceKind> devices;
  bool ranks_can_be_threads = true;
  bool ranks_can_share_gpus = true;
  bool needs_peer_access = false;  // between the GPUs of a host
  bool needs_even_hosts = false;   // the same number of ranks on each
  bool takes_mpi_seats = false;    // its ranks are those of an MPI job, see comm/mpi/seats.h
  bool built_in = true;
  // What is missing on this machine; empty where it should work.
  std::function<std::string()> missing;
  // What its communicators take an all-reduce to cost, for plans that are made without one. `gpus`:
  // of the ranks on one host, as this process numbers them; none for ranks on CPUs.
  std::function<CostEstimate(std::span<const int> gpus)> cost;
  // Collective. StartupError, ConfigError.
  std::function<std::unique_ptr<Communicator>(const BackendPlace&, const CommunicatorOptions&)>
      make;
  // The same without what MessageCommunicator adds; of backends that pass messages alone.
  std::function<std::unique_ptr<Transport>(const BackendPlace&, const CommunicatorOptions&)>
      connect = nullptr;

  const std::vector<std::string>& algorithms_on(DeviceKind device) const {
    return device == DeviceKind::cuda && !gpu_algorithms.empty() ? gpu_algorithms : algorithms;
  }
};

// All that the program knows, those that are not in this build included.
std::span<const Backend> backends();
// ConfigError listing what there is.
const Backend& find_backend(const std::string& name);

// "auto" and the names of all backends; the same for all their algorithms.
std::vector<std::string> backend_words();
std::vector<std::string> algorithm_words();

struct BackendWish {
  std::string backend = "auto";    // comm.backend
  std::string algorithm = "auto";  // comm.algorithm
  DeviceKind device = DeviceKind::cpu;
  bool ranks_are_threads = false;
  int workers = 1;
  int hosts = 1;                 // that the workers are on
  int most_workers_on_host = 1;  // of any of them
  // Whether every worker's GPU can address the memory of every other's on its host (see
  // gpus_reach_each_other() of comm/ring/ring.h).
  bool gpus_have_peer_access = true;
  bool workers_share_gpus = false;
};

struct BackendChoice {
  std::string name;
  std::string reason;
};

// Throws ConfigError where the backend is unknown, not in this build, or lacks the algorithm, and
// StartupError where it cannot work here; both say what is there.
//
// "auto" depends on the workers' places alone, never on what happens to be missing: the ring where
// they address each other's memory, nccl for GPUs that do not or are on several hosts, ring+gloo
// for CPUs of several hosts. Where that backend is not there it throws.
BackendChoice choose_backend(const BackendWish& wish);

// What "auto" comes to in a program with these backends.
BackendChoice choose_automatically(const BackendWish& wish, std::span<const Backend> backends);

}  // namespace lockstep::comm
