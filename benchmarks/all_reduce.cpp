// Times all_reduce between ranks of this host and prints the table that users of nccl-tests know.
//
// In place. time: of one call, many in a row: the mean of a round on the slowest rank, the median
// of the rounds. algbw = bytes / time, busbw = algbw * 2 (n - 1) / n. The floors (memory_floor.h,
// in float32) are measured in the same run; "x fused" is time over the fused one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "benchmarks/all_reduce_options.h"
#include "benchmarks/all_reduce_rank.h"
#include "benchmarks/all_reduce_record.h"
#include "benchmarks/all_reduce_report.h"
#include "benchmarks/all_reduce_tune.h"
#include "benchmarks/command_line.h"
#include "benchmarks/memory_floor.h"
#include "comm/mpi/mpi.h"
#include "comm/mpi/seats.h"
#include "framework/base/units.h"
#include "train/exit_code.h"
#include "train/launch/launch.h"
#include "train/placement.h"

namespace lockstep::benchmarks {
namespace {

// About 40 ms for a round at 1 GB/s.
int iterations_of(const Arguments& arguments, std::size_t bytes) {
  if (arguments.iterations > 0) return arguments.iterations;
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{40} << 20) / bytes, 2, 2000));
}

double time_calls(const Arguments& arguments, RankBench& bench, std::size_t bytes) {
  bench.clear();
  const int iterations = iterations_of(arguments, bytes);
  const int warmup = arguments.warmup < 0 ? iterations / 10 + 1 : arguments.warmup;
  for (int i = 0; i < warmup; ++i) bench.reduce();
  std::vector<double> rounds;
  for (int round = 0; round < arguments.rounds; ++round)
    rounds.push_back(bench.time_round(iterations));
  return median(std::move(rounds));
}

void measure_floors(Row& row, int ranks) {
  const std::size_t count = row.bytes / sizeof(float);
  std::vector<std::vector<float>> buffers(static_cast<std::size_t>(ranks),
                                          std::vector<float>(count));
  std::vector<float*> data;
  for (auto& buffer : buffers) data.push_back(buffer.data());
  const int repeat = row.bytes <= (1 << 20) ? 101 : 7;
  row.fused = time_floor(fused_floor, data, count, repeat);
  row.pairwise = time_floor(pairwise_floor, data, count, repeat);
}

// The floors come first, while the other ranks wait for this one to join them, and before it is
// confined to cores of its own.
std::vector<Row> make_rows(const Arguments& arguments, const train::Worker& worker) {
  std::vector<Row> rows;
  for (const std::size_t bytes : sizes_of(arguments)) {
    rows.push_back({.bytes = bytes, .algorithm = {}, .seconds = 0});
    if (arguments.floors && arguments.device == "cpu" && worker.rank() == 0)
      measure_floors(rows.back(), worker.world_size());
  }
  return rows;
}

void measure(const Arguments& arguments, train::Worker& worker, std::vector<Row> rows) {
  const auto gpu = make_gpu(arguments, worker);
  RankBench bench(arguments,
                  make_communicator(arguments, "comm/", worker, gpu ? gpu->device() : Device{},
                                    {.algorithm = arguments.algorithm}),
                  gpu.get(), base::parse_bytes(arguments.maximum));
  const bool is_first = worker.rank() == 0;
  AllReduceReport report(arguments, std::string(bench.communicator().backend()),
                         worker.world_size());
  if (is_first) report.print_heading();
  for (Row& row : rows) {
    row.algorithm = bench.communicator().algorithm_for(row.bytes);
    bench.resize(row.bytes);
    if (arguments.check) row.wrong = bench.count_wrong();
    row.seconds = time_calls(arguments, bench, row.bytes);
    if (is_first) report.add(row);
  }
  if (is_first) report.write_files();
}

void take_place(const Arguments& arguments, const train::Worker& worker) {
  const train::Config::Compute compute{.device = "cpu", .threads = 1, .pin = arguments.pin};
  if (train::choose_placement(compute, worker.world_size()).pin)
    train::take_place(compute, worker.rank(), worker.world_size());
}

constexpr const char* arguments_key = "benchmark/arguments";

void run_rank(train::Worker& worker) {
  // A worker process was started without the arguments of the user: they come through the store.
  std::vector<std::string> words =
      CLI::detail::split(worker.store().get(arguments_key, std::chrono::seconds(10)), '\n');
  std::erase(words, "");                     // what follows the last newline
  std::reverse(words.begin(), words.end());  // as the parser wants them
  CLI::App app;
  Arguments arguments;
  describe(app, arguments);
  app.parse(std::move(words));
  const bool times = arguments.tune.empty() && arguments.record.empty();
  std::vector<Row> rows;
  if (times) rows = make_rows(arguments, worker);
  const train::Machine machine = train::this_machine();  // with all of its cores
  take_place(arguments, worker);
  if (!arguments.tune.empty()) return Tuner(arguments, worker, machine).run();
  if (!arguments.record.empty()) return record(arguments, worker);
  measure(arguments, worker, std::move(rows));
}

// What is wrong with options that are right each on its own. ConfigError.
void check(const Arguments& arguments, const std::string& backend) {
  if (sizes_of(arguments).empty())
    throw ConfigError(fmt::format("--min: found {}, expected at most --max, which is {}",
                                  arguments.minimum, arguments.maximum));
  if (arguments.device == "cuda" && (!arguments.tune.empty() || !arguments.record.empty()))
    throw ConfigError("--tune and --record are for --device cpu, found cuda");
  if (!arguments.tune.empty() && backend != "ring")
    throw ConfigError("--tune is for the backend ring, found " + backend);
  require_writable("--json", arguments.json);
  require_writable("--csv", arguments.csv);
  require_writable("--tune", arguments.tune);
  require_writable("--record", arguments.record);
}

int launch(const Arguments& arguments, const std::string& words) {
  train::LaunchOptions options;
  options.workers = arguments.ranks;
  options.kind =
      arguments.launcher == "threads" ? train::LaunchKind::threads : train::LaunchKind::processes;
  options.settings[arguments_key] = words;
  std::optional<comm::MpiJob> job;  // outlives the ranks
  const std::string backend = backend_of(arguments, arguments.ranks);
  check(arguments, backend);
  if (comm::find_backend(backend).takes_mpi_seats) {
    job.emplace(arguments.ranks, "", std::chrono::seconds(30));
    options.settings[comm::mpi_seats_key] = job->seats();
  }
  return train::launch(options, run_rank, Log());
}

int run(int argc, char** argv) {
  device::prepare_cuda_process();
  if (const auto code = train::run_if_worker(argc, argv, run_rank)) return *code;
  CLI::App app("Times all_reduce between ranks of this host.");
  Arguments arguments;
  describe(app, arguments);
  if (const auto code = parse(app, argc, argv)) return *code;
  std::string words;
  for (int i = 1; i < argc; ++i) words += std::string(argv[i]) + '\n';
  try {
    return launch(arguments, words);
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
