// Times all_reduce between ranks of this host and prints the table that users of nccl-tests know.
//
// In place, float32 sum by default. time: of one call, many in a row: the mean of a round on the
// slowest rank, the median of the rounds. algbw = bytes / time, busbw = algbw * 2 (n - 1) / n. The
// floors (memory_floor.h) are measured in the same run; "x fused" is time over the fused one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "benchmarks/memory_floor.h"
#include "comm/backend.h"
#include "comm/mpi/mpi.h"
#include "comm/mpi/seats.h"
#include "framework/base/units.h"
#include "framework/device/cpu/cpu_context.h"
#include "train/exit_code.h"
#include "train/launch/launch.h"

namespace lockstep::benchmarks {
namespace {

struct Arguments {
  int ranks = 8;
  std::string launcher = "processes";
  std::string backend = "auto";
  std::string algorithm = "auto";
  std::string agreement = "every";
  std::string memory = "addressable";
  std::string minimum = "4KiB", maximum = "64MiB";
  int factor = 4;
  int iterations = 0;
  int rounds = 5;
  bool check = false;
  bool floors = true;
  std::string json;
};

struct Row {
  std::size_t bytes = 0;
  double seconds = 0;
  double fused = 0, pairwise = 0;  // 0: not measured
  std::int64_t wrong = -1;         // -1: not checked
};

void describe(CLI::App& app, Arguments& arguments) {
  app.add_option("--ranks", arguments.ranks)->check(CLI::Range(1, 64));
  app.add_option("--launcher", arguments.launcher)->check(CLI::IsMember({"processes", "threads"}));
  app.add_option("--backend", arguments.backend)->check(CLI::IsMember(comm::backend_words()));
  app.add_option("--algorithm", arguments.algorithm, "as far as the backend offers it")
      ->check(CLI::IsMember(comm::algorithm_words()));
  app.add_option("--agreement", arguments.agreement, "whether ranks compare each call: comm.check")
      ->check(CLI::IsMember({"every", "off"}));
  app.add_option("--memory", arguments.memory, "where the data lies")
      ->check(CLI::IsMember({"addressable", "foreign"}));
  app.add_option("--min", arguments.minimum, "smallest size in bytes, units allowed");
  app.add_option("--max", arguments.maximum, "largest size");
  app.add_option("--factor", arguments.factor, "from one size to the next")
      ->check(CLI::Range(2, 1024));
  app.add_option("--iterations", arguments.iterations, "calls in a round; 0: by size");
  app.add_option("--rounds", arguments.rounds)->check(CLI::Range(1, 1000));
  app.add_flag("--check", arguments.check, "verify every element");
  app.add_flag("--floors,!--no-floors", arguments.floors, "measure what memory allows");
  app.add_option("--json", arguments.json, "write the rows to this file");
}

double since(device::Clock::time_point start) {
  return std::chrono::duration<double>(device::Clock::now() - start).count();
}

// About 40 ms for a round at 1 GB/s.
int iterations_of(const Arguments& arguments, std::size_t bytes) {
  if (arguments.iterations > 0) return arguments.iterations;
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{40} << 20) / bytes, 2, 2000));
}

// One rank's part of the benchmark.
class Bench {
 public:
  Bench(const Arguments& arguments, comm::Communicator& communicator)
      : arguments_(arguments), communicator_(communicator), stream_(device::make_inline_stream()) {}

  void run() {
    const std::size_t largest = base::parse_bytes(arguments_.maximum);
    if (arguments_.memory == "addressable")
      addressable_ = communicator_.addressable_memory(largest);
    if (addressable_) {
      data_ = reinterpret_cast<float*>(addressable_->local().data());
    } else {
      foreign_.resize(largest / sizeof(float));
      data_ = foreign_.data();
    }
    if (is_first()) print_heading();
    for (std::size_t bytes = base::parse_bytes(arguments_.minimum); bytes <= largest;
         bytes *= static_cast<std::size_t>(arguments_.factor)) {
      Row row{.bytes = bytes};
      range_ = comm::range_of(std::span(data_, bytes / sizeof(float)));
      if (arguments_.check) row.wrong = count_wrong();
      row.seconds = time_calls(iterations_of(arguments_, bytes));
      if (arguments_.floors && is_first()) measure_floors(row);
      communicator_.barrier(*stream_).wait();
      if (is_first()) print(row);
      rows_.push_back(row);
    }
    if (is_first() && !arguments_.json.empty()) write_json();
  }

 private:
  bool is_first() const { return communicator_.rank() == 0; }

  void reduce() { communicator_.all_reduce(range_, comm::ReduceOp::sum, *stream_).wait(); }

  double time_calls(int iterations) {
    // Sums of zeros stay zeros, however often.
    std::fill_n(data_, range_.count, 0.0f);
    for (int i = 0; i < iterations / 10 + 1; ++i) reduce();
    std::vector<double> rounds;
    for (int round = 0; round < arguments_.rounds; ++round) {
      communicator_.barrier(*stream_).wait();
      const auto start = device::Clock::now();
      for (int i = 0; i < iterations; ++i) reduce();
      double seconds = since(start) / iterations;
      communicator_
          .all_reduce(comm::range_of(std::span(&seconds, 1)), comm::ReduceOp::max, *stream_)
          .wait();
      rounds.push_back(seconds);
    }
    std::nth_element(rounds.begin(), rounds.begin() + arguments_.rounds / 2, rounds.end());
    return rounds[rounds.size() / 2];
  }

  // Small whole numbers, so that every sum is exact in any order.
  std::int64_t count_wrong() {
    const auto value = [](std::int64_t i, int rank) { return static_cast<float>((i + rank) % 64); };
    for (std::int64_t i = 0; i < range_.count; ++i) data_[i] = value(i, communicator_.rank());
    reduce();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < range_.count; ++i) {
      float sum = 0;
      for (int r = 0; r < communicator_.size(); ++r) sum += value(i, r);
      wrong += data_[i] != sum;
    }
    communicator_.all_reduce(comm::range_of(std::span(&wrong, 1)), comm::ReduceOp::sum, *stream_)
        .wait();
    return wrong;
  }

  void measure_floors(Row& row) {
    const std::size_t count = row.bytes / sizeof(float);
    std::vector<std::vector<float>> buffers(static_cast<std::size_t>(communicator_.size()),
                                            std::vector<float>(count));
    std::vector<float*> data;
    for (auto& buffer : buffers) data.push_back(buffer.data());
    const int repeat = std::clamp(iterations_of(arguments_, row.bytes), 5, 200);
    row.fused = time_floor(fused_floor, data, count, repeat);
    row.pairwise = time_floor(pairwise_floor, data, count, repeat);
  }

  double algbw(const Row& row) const { return static_cast<double>(row.bytes) / row.seconds * 1e-9; }
  double busbw(const Row& row) const {
    return algbw(row) * 2 * (communicator_.size() - 1) / communicator_.size();
  }

  void print_heading() const {
    fmt::print("# all_reduce: {} ranks ({}), {} backend, algorithm {}, {} memory\n",
               communicator_.size(), arguments_.launcher, communicator_.backend(),
               arguments_.algorithm, arguments_.memory);
    fmt::print("{:>12} {:>12} {:>8} {:>5} {:>11} {:>9} {:>9} {:>6} {:>11} {:>11} {:>8}\n",
               "size (B)", "count", "type", "op", "time (us)", "algbw", "busbw", "wrong",
               "fused (us)", "pairw. (us)", "x fused");
  }

  void print(const Row& row) const {
    const std::string wrong = row.wrong < 0 ? "N/A" : std::to_string(row.wrong);
    fmt::print(
        "{:>12} {:>12} {:>8} {:>5} {:>11.1f} {:>9.2f} {:>9.2f} {:>6} {:>11.1f} {:>11.1f} "
        "{:>8.2f}\n",
        row.bytes, row.bytes / sizeof(float), "float32", "sum", row.seconds * 1e6, algbw(row),
        busbw(row), wrong, row.fused * 1e6, row.pairwise * 1e6,
        row.fused > 0 ? row.seconds / row.fused : 0.0);
    std::fflush(stdout);
  }

  void write_json() const {
    std::ofstream file(arguments_.json);
    file << fmt::format(
        R"({{"benchmark": "all_reduce", "backend": "{}", "ranks": {}, "launcher": "{}", )"
        R"("algorithm": "{}", "memory": "{}", "rows": [)",
        communicator_.backend(), communicator_.size(), arguments_.launcher, arguments_.algorithm,
        arguments_.memory);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      file << fmt::format(
          R"({}{{"bytes": {}, "seconds": {:.4e}, "algbw": {:.4f}, "busbw": {:.4f}, )"
          R"("wrong": {}, "fused_floor": {:.4e}, "pairwise_floor": {:.4e}}})",
          i == 0 ? "\n  " : ",\n  ", row.bytes, row.seconds, algbw(row), busbw(row), row.wrong,
          row.fused, row.pairwise);
    }
    file << "\n]}\n";
    if (!file.flush()) throw UsageError("cannot write " + arguments_.json);
  }

  const Arguments& arguments_;
  comm::Communicator& communicator_;
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<comm::SymmetricBuffer> addressable_;
  std::vector<float> foreign_;
  float* data_ = nullptr;
  comm::Range range_;
  std::vector<Row> rows_;
};

// By the launcher and by each rank, with the same result.
std::string backend_of(const Arguments& arguments) {
  return comm::choose_backend({.backend = arguments.backend,
                               .algorithm = arguments.algorithm,
                               .ranks_are_threads = arguments.launcher == "threads"})
      .name;
}

std::unique_ptr<comm::Communicator> make_communicator(const Arguments& arguments,
                                                      train::Worker& worker) {
  constexpr std::chrono::seconds start_timeout(30);
  return comm::find_backend(backend_of(arguments))
      .make({.rank = worker.rank(),
             .size = worker.world_size(),
             .device = {},
             .store = worker.store(),
             .join = [&](const std::string& name, int rank,
                         int size) { return worker.join(name, rank, size, start_timeout); },
             .prefix = "comm",
             .interface = std::nullopt,
             .start_timeout = start_timeout},
            {.algorithm = arguments.algorithm,
             .check = arguments.agreement == "off" ? comm::AgreementCheck::off
                                                   : comm::AgreementCheck::every});
}

int run(int argc, char** argv) {
  constexpr const char* key = "benchmark/arguments";
  const train::Body body = [&](train::Worker& worker) {
    // A worker process was started without the arguments of the user: they come through the store.
    std::vector<std::string> words =
        CLI::detail::split(worker.store().get(key, std::chrono::seconds(10)), '\n');
    std::erase(words, "");                     // what follows the last newline
    std::reverse(words.begin(), words.end());  // as the parser wants them
    CLI::App app;
    Arguments arguments;
    describe(app, arguments);
    app.parse(std::move(words));
    const auto communicator = make_communicator(arguments, worker);
    Bench(arguments, *communicator).run();
  };
  if (const auto code = train::run_if_worker(argc, argv, body)) return *code;
  CLI::App app("Times all_reduce between ranks of this host.");
  Arguments arguments;
  describe(app, arguments);
  CLI11_PARSE(app, argc, argv);
  std::string words;
  for (int i = 1; i < argc; ++i) words += std::string(argv[i]) + '\n';
  train::LaunchOptions options;
  options.workers = arguments.ranks;
  options.kind =
      arguments.launcher == "threads" ? train::LaunchKind::threads : train::LaunchKind::processes;
  options.settings[key] = words;
  try {
    std::optional<comm::MpiJob> job;  // outlives the ranks
    if (comm::find_backend(backend_of(arguments)).takes_mpi_seats) {
      job.emplace(arguments.ranks, "", std::chrono::seconds(30));
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
