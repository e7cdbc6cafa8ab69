// What it costs to call Gloo and MPI through the project's interface: their all-reduce called
// directly, through a Communicator that compares nothing (comm.check: off) and through one that
// compares every call, in turn in one run, on the same memory, blocking on the calling thread.
//
// In place, float32 sum. Times are medians over the calls, of the slowest rank; a ratio is that of
// the medians, over the direct call.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>

#include "benchmarks/bench.h"
#include "benchmarks/command_line.h"
#include "comm/backend.h"
#include "comm/message/message_communicator.h"
#include "comm/mpi/mpi.h"
#include "comm/mpi/seats.h"
#include "framework/device/cpu/cpu_context.h"
#include "train/exit_code.h"
#include "train/launch/launch.h"

#ifdef LOCKSTEP_HAS_GLOO
#include <gloo/allreduce.h>
#include <gloo/math.h>

#include "comm/gloo/gloo_mesh.h"
#endif
#ifdef LOCKSTEP_HAS_MPI
#include <mpi.h>
#endif

namespace lockstep::benchmarks {
namespace {

constexpr std::chrono::seconds start_timeout(30);

struct Arguments {
  int ranks = 4;
  std::string backend = "gloo";
  std::string algorithm = "auto";
  int minimum_kib = 4, maximum_kib = 16384;
  double seconds = 1;  // about so long for each size and way
  std::string json;
};

struct CommandLine {
  CLI::App app{"Times the all-reduce of Gloo or MPI, called directly and through a Communicator."};
  Arguments arguments;
  CommandLine();
};

CommandLine::CommandLine() {
  app.add_option("--ranks", arguments.ranks)->check(CLI::Range(2, 64));
  app.add_option("--backend", arguments.backend)->check(CLI::IsMember({"gloo", "mpi"}));
  app.add_option("--algorithm", arguments.algorithm)
      ->check(CLI::IsMember({"auto", "ring", "bcube"}));
  app.add_option("--min-kib", arguments.minimum_kib)->check(CLI::Range(1, 1 << 20));
  app.add_option("--max-kib", arguments.maximum_kib)->check(CLI::Range(1, 1 << 20));
  app.add_option("--seconds", arguments.seconds, "for each size and way of calling");
  app.add_option("--json", arguments.json, "write the rows to this file");
}

using AllReduce = std::function<void(std::span<float>)>;

#ifdef LOCKSTEP_HAS_GLOO
AllReduce gloo_directly(train::Worker& worker, const std::string& algorithm) {
  const auto mesh = std::make_shared<comm::GlooMesh>(comm::make_gloo_device(std::nullopt),
                                                     worker.rank(), worker.world_size(),
                                                     worker.store(), "direct", start_timeout);
  return [mesh, bcube = algorithm == "bcube"](std::span<float> data) {
    using Options = gloo::AllreduceOptions;
    Options options(mesh->context());
    options.setOutput(data.data(), data.size());
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
      gloo::sum<float>(out, a, b, count);
    });
    options.setAlgorithm(bcube ? Options::Algorithm::BCUBE : Options::Algorithm::RING);
    gloo::allreduce(options);
  };
}
#endif

#ifdef LOCKSTEP_HAS_MPI
// After the backend has initialised MPI, which the module and this program share.
AllReduce mpi_directly() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  return [comm](std::span<float> data) {
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                  comm);
  };
}
#endif

AllReduce directly([[maybe_unused]] train::Worker& worker, const Arguments& arguments) {
#ifdef LOCKSTEP_HAS_GLOO
  if (arguments.backend == "gloo") return gloo_directly(worker, arguments.algorithm);
#endif
#ifdef LOCKSTEP_HAS_MPI
  if (arguments.backend == "mpi") return mpi_directly();
#endif
  throw ConfigError(arguments.backend + " is not in this build");
}

// The two communicators: the second on connections split off the first's, since a process uses MPI
// once.
struct Communicators {
  std::unique_ptr<comm::Communicator> unchecked, checked;
};

Communicators make_communicators(train::Worker& worker, const Arguments& arguments) {
  const comm::BackendPlace place{.rank = worker.rank(),
                                 .size = worker.world_size(),
                                 .device = {},
                                 .store = worker.store(),
                                 .join = nullptr,
                                 .prefix = "comm",
                                 .interface = std::nullopt,
                                 .start_timeout = start_timeout};
  comm::CommunicatorOptions options{.algorithm = arguments.algorithm};
  auto transport = comm::find_backend(arguments.backend).connect(place, options);
  std::vector<int> all;
  for (int rank = 0; rank < worker.world_size(); ++rank) all.push_back(rank);
  auto second =
      transport->split(all, worker.store(), "second", device::Clock::now() + start_timeout);
  const auto make = [&](std::unique_ptr<comm::Transport> connections, const char* prefix,
                        comm::AgreementCheck check) {
    options.check = check;
    return std::make_unique<comm::MessageCommunicator>(std::move(connections), worker.store(),
                                                       prefix, options, start_timeout,
                                                       worker.join(prefix, start_timeout));
  };
  // The second goes first: MPI ends with the first.
  return {.unchecked = make(std::move(transport), "comm", comm::AgreementCheck::off),
          .checked = make(std::move(second), "second", comm::AgreementCheck::every)};
}

class Bench {
 public:
  Bench(train::Worker& worker, const Arguments& arguments)
      : arguments_(arguments), communicators_(make_communicators(worker, arguments)) {
    const auto through = [this](comm::Communicator& communicator) {
      return [this, &communicator](std::span<float> data) {
        communicator.all_reduce(comm::range_of(data), comm::ReduceOp::sum, *stream_).wait();
      };
    };
    ways_ = {directly(worker, arguments), through(*communicators_.unchecked),
             through(*communicators_.checked)};
  }

  void run() {
    Report report({"bytes", "calls", "direct us", "check off us", "check every us", "off/direct",
                   "every/direct"});
    for (int kib = arguments_.minimum_kib; kib <= arguments_.maximum_kib; kib *= 4) {
      const std::size_t bytes = std::size_t{1024} * static_cast<std::size_t>(kib);
      std::vector<float> data(bytes / sizeof(float), 0.0f);
      const int calls = choose_calls(data);
      const std::vector<double> seconds = measure(data, calls);
      report.add({static_cast<std::int64_t>(bytes), std::int64_t{calls}, seconds[0] * 1e6,
                  seconds[1] * 1e6, seconds[2] * 1e6, seconds[1] / seconds[0],
                  seconds[2] / seconds[0]});
    }
    if (communicators_.checked->rank() != 0) return;
    report.print();
    if (arguments_.json.empty()) return;
    write_file(arguments_.json, report.json() + "\n");
  }

 private:
  double slowest(double value) {
    communicators_.checked->all_reduce({&value, 1, DType::float64}, comm::ReduceOp::max, *stream_)
        .wait();
    return value;
  }

  // The same on every rank, odd for the sake of the median.
  int choose_calls(std::span<float> data) {
    ways_[0](data);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) ways_[0](data);
    const double each = slowest(seconds_since(start) / 3);
    return 1 + 2 * static_cast<int>(std::clamp(arguments_.seconds / each / 2, 5.0, 2500.0));
  }

  // The median seconds of each way. The order changes from call to call, so that none always
  // follows the same one.
  std::vector<double> measure(std::span<float> data, int calls) {
    std::vector<std::vector<double>> times(ways_.size());
    for (int call = 0; call < calls; ++call)
      for (std::size_t k = 0; k < ways_.size(); ++k) {
        const std::size_t way = (k + static_cast<std::size_t>(call)) % ways_.size();
        const auto start = std::chrono::steady_clock::now();
        ways_[way](data);
        times[way].push_back(seconds_since(start));
      }
    std::vector<double> medians;
    for (auto& of_way : times) medians.push_back(slowest(median(std::move(of_way))));
    return medians;
  }

  const Arguments& arguments_;
  std::unique_ptr<Stream> stream_ = device::make_inline_stream();
  Communicators communicators_;
  std::vector<AllReduce> ways_;
};

int run(int argc, char** argv) {
  constexpr const char* key = "benchmark/arguments";
  const train::Body body = [&](train::Worker& worker) {
    std::vector<std::string> words =
        CLI::detail::split(worker.store().get(key, std::chrono::seconds(10)), '\n');
    std::vector<const char*> pointers = {"wrapper_overhead"};
    for (const std::string& word : words)
      if (!word.empty()) pointers.push_back(word.c_str());
    CommandLine line;
    line.app.parse(static_cast<int>(pointers.size()), pointers.data());
    Bench(worker, line.arguments).run();
  };
  if (const auto code = train::run_if_worker(argc, argv, body)) return *code;
  CommandLine line;
  if (const auto code = parse(line.app, argc, argv)) return *code;
  const Arguments& arguments = line.arguments;
  train::LaunchOptions options;
  options.workers = arguments.ranks;
  for (int i = 1; i < argc; ++i) options.settings[key] += std::string(argv[i]) + '\n';
  options.settings.try_emplace(key);
  try {
    require_writable("--json", arguments.json);
    std::optional<comm::MpiJob> job;  // outlives the ranks
    if (comm::find_backend(arguments.backend).takes_mpi_seats) {
      job.emplace(arguments.ranks, "", start_timeout);
      options.settings[comm::mpi_seats_key] = job->seats();
    }
    return train::launch(options, body, Log());
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return train::exit_code_of(error);
  }
}

}  // namespace
}  // namespace lockstep::benchmarks

int main(int argc, char** argv) {
  return lockstep::benchmarks::run(argc, argv);
}
