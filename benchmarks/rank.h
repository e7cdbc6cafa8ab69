// What ranks of a benchmark are and how they reach each other: options, devices, communicators.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "comm/backend.h"
#include "comm/ring/ring.h"
#include "framework/device/cuda/cuda_context.h"
#include "train/launch/worker.h"

namespace lockstep::benchmarks {

struct RankOptions {
  std::string launcher = "processes";
  std::string device = "cpu";
  std::string backend = "auto";
  std::string algorithm = "auto";
  std::string agreement = "every";

  DeviceKind kind() const { return device == "cuda" ? DeviceKind::cuda : DeviceKind::cpu; }
};

// Reads their part of the command line when `app` parses.
inline void describe_ranks(CLI::App& app, RankOptions& options) {
  app.add_option("--launcher", options.launcher)->check(CLI::IsMember({"processes", "threads"}));
  app.add_option("--device", options.device,
                 "cuda: on GPUs, of which the threads of one process may share each")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--backend", options.backend)->check(CLI::IsMember(comm::backend_words()));
  app.add_option("--algorithm", options.algorithm, "as far as the backend offers it")
      ->check(CLI::IsMember(comm::algorithm_words()));
  app.add_option("--agreement", options.agreement, "whether ranks compare each call: comm.check")
      ->check(CLI::IsMember({"every", "off"}));
}

// The GPUs that so many ranks take, in turns; empty for ranks on the CPU.
inline std::vector<int> gpus_of(const RankOptions& options, int ranks) {
  if (options.kind() == DeviceKind::cpu) return {};
  return device::cuda_devices().of_ranks(ranks);
}

// By the launcher and by each rank, with the same result.
inline std::string backend_of(const RankOptions& options, int ranks) {
  const std::vector<int> gpus = gpus_of(options, ranks);
  return comm::choose_backend(
             {.backend = options.backend,
              .algorithm = options.algorithm,
              .device = options.kind(),
              .ranks_are_threads = options.launcher == "threads",
              .workers = ranks,
              .gpus_have_peer_access = comm::gpus_reach_each_other(gpus),
              .workers_share_gpus = !gpus.empty() && static_cast<int>(gpus.size()) < ranks})
      .name;
}

// A rank's GPU; nullptr for ranks on the CPU. StartupError where there is none, or where processes
// would have to share one: their kernels would take turns there and wait for each other for ever.
inline std::unique_ptr<Context> make_gpu(const RankOptions& options, const train::Worker& worker) {
  if (options.kind() == DeviceKind::cpu) return nullptr;
  const device::CudaDevices gpus = device::cuda_devices();
  if (gpus.count > 0 && gpus.count < worker.world_size() && options.launcher != "threads")
    throw StartupError(fmt::format(
        "{} ranks on {} GPUs: ranks that share one must be threads (--launcher threads)",
        worker.world_size(), gpus.count));
  return device::make_cuda_context(gpus.of_rank(worker.rank()), worker.rank());
}

// `label` is used once in a run; `more` has what the options do not say.
inline std::unique_ptr<comm::Communicator> make_communicator(const RankOptions& options,
                                                             const std::string& label,
                                                             train::Worker& worker, Device device,
                                                             comm::CommunicatorOptions more = {}) {
  constexpr std::chrono::seconds start_timeout(30);
  more.check = options.agreement == "off" ? comm::AgreementCheck::off : comm::AgreementCheck::every;
  return comm::find_backend(backend_of(options, worker.world_size()))
      .make({.rank = worker.rank(),
             .size = worker.world_size(),
             .device = device,
             .store = worker.store(),
             .join = [&](const std::string& name, int rank,
                         int size) { return worker.join(label + name, rank, size, start_timeout); },
             .prefix = label,
             .interface = std::nullopt,
             .start_timeout = start_timeout},
            more);
}

}  // namespace lockstep::benchmarks
