// Times whole training steps of the multi-layer perceptrons that benchmarks/peers/ddp_step.py
// times, in real replicas: on CPUs one compute thread for each, on GPUs (--device cuda) one for
// each replica, or shared by several.
//
// A step is forward, backward with the averaging of gradients, and the optimizer's update; the
// batches are made before. Times are rank 0's, each from the end of one step to the end of the
// next: all ranks take the same number of steps in the same time, and the gaps between steps are
// not lost. Then the same steps are timed without communication ("compute"), with all workers still
// computing at the same time; where they share cores, single steps say little of that, so it is the
// mean on the slowest rank.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <thread>

#include "benchmarks/command_line.h"
#include "benchmarks/fma_peak.h"
#include "benchmarks/product_floor.h"
#include "benchmarks/rank.h"
#include "benchmarks/train_step_options.h"
#include "benchmarks/train_step_report.h"
#include "data/sampler.h"
#include "framework/base/random.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/ops/cross_entropy.h"
#include "train/exit_code.h"
#include "train/launch/launch.h"
#include "train/parallel/host_values.h"
#include "train/placement.h"
#include "train/recipe.h"

namespace lockstep::benchmarks {
namespace {

// All processes of the host share this clock.
double clock_seconds() {
  return std::chrono::duration<double>(device::Clock::now().time_since_epoch()).count();
}

// Bytes of this process, each page divided by the number of processes that map it.
double proportional_set_size() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word)
    if (word == "Pss:" && file >> word) return std::stod(word) * 1024;
  throw StartupError("/proc/self/smaps_rollup has no line 'Pss:'");
}

// What one rank saw of one series of steps; seconds.
struct Series {
  std::vector<double> steps, exposed, hidden;
  double first_step_end = 0;  // clock_seconds()
  std::uint64_t sent = 0;     // bytes that left a rank in a step, at least
};

// One rank's part of the benchmark.
class Bench {
 public:
  Bench(const Arguments& arguments, train::Worker& worker)
      : arguments_(arguments),
        workload_(workload_of(arguments)),
        config_(config_of(arguments, workload_)),
        worker_(worker),
        context_(arguments.kind() == DeviceKind::cuda ? make_gpu(arguments, worker)
                                                      : device::make_cpu_context(1)),
        communicator_(make_communicator(arguments, "train_step/", worker, context_->device(),
                                        train::communicator_options(config_))) {
    make_batch();
  }

  // `floor`: seconds that the products take at the processor's peak, on all cores there are; on
  // GPUs it is measured here. `launched_at`: when the launcher started the ranks, as
  // clock_seconds() says it.
  void run(double floor, double launched_at) {
    if (arguments_.kind() == DeviceKind::cuda) floor = measure_floor();
    std::optional<Series> steps;
    if (arguments_.synchronised) {
      steps = time_steps(*communicator_);
      start_ = largest(steps->first_step_end - launched_at);
      memory_ = largest(memory_);
    }
    // A world of its own for each rank: the same step, with nobody to wait for.
    std::optional<double> compute;
    if (arguments_.compute) {
      const auto alone = communicator_->split(worker_.rank(), 0);
      compute = largest(Summary(time_steps(*alone).steps).mean);
    }
    if (worker_.rank() == 0) report(steps, compute, floor);
  }

 private:
  void make_batch() {
    const auto rows = data::shard(workload_.batch, worker_.rank(), worker_.world_size()).size();
    const base::RandomStream random(*config_.seed, "benchmark",
                                    static_cast<std::uint64_t>(worker_.rank()));
    std::vector<float> values(static_cast<std::size_t>(rows * features));
    std::vector<std::int64_t> targets(static_cast<std::size_t>(rows));
    std::uint64_t draw = 0;
    for (float& value : values) value = static_cast<float>(random.normal(draw++));
    for (std::int64_t& target : targets)
      target = static_cast<std::int64_t>(random.below(classes, draw++));
    features_ = Tensor::from<float>(*context_, values, Shape{rows, features});
    labels_ = Tensor::from<std::int64_t>(*context_, targets, Shape{rows});
  }

  // By rank 0 for a GPU's share of the batch, while nobody else uses one.
  double measure_floor() {
    constexpr const char* key = "benchmark/floor_of_gpu";
    const auto gpus = static_cast<int>(gpus_of(arguments_, worker_.world_size()).size());
    if (worker_.rank() == 0)
      worker_.store().set(key, fmt::format("{:.9g}", measure_products(*context_, workload_,
                                                                      workload_.batch / gpus)));
    return std::stod(worker_.store().get(key, std::chrono::seconds(60)));
  }

  train::StepParts take_step(train::Replica& replica, std::int64_t step) {
    replica.begin_step(step);
    replica.begin_update(step);
    const Variable logits = replica.model()(Variable(features_));
    const auto loss =
        ops::cross_entropy(logits, labels_, 1.0 / static_cast<double>(workload_.batch));
    replica.backward(loss.loss_sum);
    replica.finish_backward();
    if (!replica.update(config_.optimizer.lr))
      throw NumericError(fmt::format("the gradients of step {} are not finite", step));
    return replica.end_step();
  }

  Series time_steps(comm::Communicator& communicator) {
    const auto replica = train::make_replica(
        config_, *context_, communicator, {Shape{features}, classes, DType::float32}, no_faults_);
    Series series;
    double before = clock_seconds();
    for (int step = 1; step <= workload_.warmup + workload_.steps; ++step) {
      worker_.report_step(step);
      const train::StepParts parts = take_step(*replica, step);
      const double now = clock_seconds();
      if (step == 1) series.first_step_end = now;
      if (step > workload_.warmup) {
        series.steps.push_back(now - before);
        series.exposed.push_back(parts.exposed);
        series.hidden.push_back(parts.hidden());
      }
      before = now;
    }
    replica->wait_for_parameters();
    series.sent = replica->sent_bytes();
    // Before the replica goes: the memory of all counts, and shared memory counts for all.
    communicator.barrier(context_->compute_stream()).wait();
    memory_ = proportional_set_size();
    if (arguments_.launcher == "threads") memory_ /= worker_.world_size();
    communicator.barrier(context_->compute_stream()).wait();
    return series;
  }

  // Of all ranks.
  double largest(double value) {
    train::HostValues<double> exchanged(*context_, 1);
    exchanged[0] = value;
    communicator_->all_reduce(exchanged.range(), comm::ReduceOp::max, context_->compute_stream())
        .wait();
    return exchanged[0];
  }

  void report(const std::optional<Series>& steps, std::optional<double> compute,
              double floor) const {
    Result result;
    result.workers = worker_.world_size();
    result.backend = communicator_->backend();
    result.compute = compute;
    result.floor = floor;
    if (steps) {
      const Summary step(steps->steps);
      result.q1 = step.q1, result.median = step.median, result.q3 = step.q3;
      result.mean = step.mean;
      result.rate = static_cast<double>(workload_.batch) / step.median;
      result.exposed = Summary(steps->exposed).median;
      result.hidden = Summary(steps->hidden).median;
      result.start = start_;
      result.memory = memory_;
      result.sent = static_cast<double>(steps->sent);
    }
    print_row(result);
    if (!arguments_.json.empty()) write_json(arguments_, result);
  }

  const Arguments& arguments_;
  const Workload workload_;
  const train::Config config_;
  const train::FaultHook no_faults_;
  train::Worker& worker_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<comm::Communicator> communicator_;
  Tensor features_, labels_;
  double start_ = 0;   // seconds, from the launch to the end of the first step
  double memory_ = 0;  // bytes
};

// What the launcher tells the ranks: a worker process was started without the arguments of the
// user.
constexpr const char* arguments_key = "benchmark/arguments";
constexpr const char* floor_key = "benchmark/floor";
constexpr const char* launched_at_key = "benchmark/launched_at";  // seconds on the host's clock

void run_rank(train::Worker& worker) {
  const auto setting = [&](const char* key) {
    return worker.store().get(key, std::chrono::seconds(10));
  };
  CLI::App app;
  Arguments arguments;
  describe(app, arguments);
  std::vector<std::string> words = CLI::detail::split(setting(arguments_key), '\n');
  std::erase(words, "");                     // what follows the last newline
  std::reverse(words.begin(), words.end());  // as the parser wants them
  app.parse(std::move(words));
  const train::Config::Compute compute = {.threads = 1, .pin = arguments.pin};
  if (train::choose_placement(compute, worker.world_size()).pin)
    train::take_place(compute, worker.rank(), worker.world_size());
  Bench(arguments, worker).run(std::stod(setting(floor_key)), std::stod(setting(launched_at_key)));
}

// `peak`: operations in a second of one core; 0 where GPUs do the work.
int launch(const Arguments& arguments, const std::string& words, int workers, double peak) {
  const auto cores = std::min(static_cast<unsigned>(workers), std::thread::hardware_concurrency());
  const double floor = peak > 0 ? workload_of(arguments).operations() / peak / cores : 0;
  train::LaunchOptions options;
  options.workers = workers;
  if (arguments.launcher == "threads") options.kind = train::LaunchKind::threads;
  options.settings = {{arguments_key, words},
                      {floor_key, fmt::format("{:.9g}", floor)},
                      {launched_at_key, fmt::format("{:.9f}", clock_seconds())}};
  return train::launch(options, run_rank, Log());
}

std::string describe_gpu() {
  const device::CudaDevices gpus = device::cuda_devices();
  if (gpus.count == 0) throw StartupError("--device cuda: there is no GPU: " + gpus.reason);
  return fmt::format("floor measured on {}", device::describe_cuda_device(0).name);
}

int run_all(const Arguments& arguments, const std::string& words) {
  if (!arguments.json.empty() && !std::ofstream(arguments.json, std::ios::trunc))
    throw ConfigError("cannot write " + arguments.json);
  const bool on_gpus = arguments.kind() == DeviceKind::cuda;
  const double peak = on_gpus ? 0 : measure_fma_peak();
  print_heading(arguments, on_gpus ? describe_gpu()
                                   : fmt::format("peak of a core: {:.0f} GFLOP/s", peak * 1e-9));
  for (const int workers : arguments.workers)
    if (const int code = launch(arguments, words, workers, peak); code != 0) return code;
  return 0;
}

int run(int argc, char** argv) {
  device::prepare_cuda_process();
  if (const auto code = train::run_if_worker(argc, argv, run_rank)) return *code;
  CLI::App app("Times training steps of N replicas on this host.");
  Arguments arguments;
  describe(app, arguments);
  if (const auto code = parse(app, argc, argv)) return *code;
  std::string words;
  for (int i = 1; i < argc; ++i) words += std::string(argv[i]) + '\n';
  try {
    return run_all(arguments, words);
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
