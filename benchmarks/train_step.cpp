// Times whole training steps of the multi-layer perceptrons that benchmarks/peers/ddp_step.py
// times, in real replicas on the ring backend, one compute thread for each.
//
// A step is forward, backward with the averaging of gradients, and the optimizer's update; the
// batches are made before. Times are rank 0's, each from the end of one step to the end of the
// next: all ranks take the same number of steps in the same time, and the gaps between steps are
// not lost. Then the same steps are timed without communication ("compute"), with all workers still
// computing at the same time; where they share cores, single steps say little of that, so it is the
// mean on the slowest rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <thread>

#include "benchmarks/fma_peak.h"
#include "comm/ring/ring.h"
#include "data/sampler.h"
#include "framework/base/random.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/ops/cross_entropy.h"
#include "train/launch/launch.h"
#include "train/parallel/hooks/hooks.h"
#include "train/placement.h"
#include "train/recipe.h"

namespace lockstep::benchmarks {
namespace {

constexpr std::int64_t features = 784;
constexpr std::int64_t classes = 10;

struct Arguments {
  std::string model = "mlp";
  std::vector<int> workers = {1, 2, 4, 8};
  std::string launcher = "processes";
  int steps = 0;
  int warmup = 0;
  std::string overlap = "on";
  std::string optimizer = "sgd";
  std::string sharding = "none";
  std::string algorithm = "auto";
  std::string pin = "auto";
  std::string hook = "none";
  double bucket_mib = *train::Config::DataParallel().bucket_mib;
  double first_bucket_mib = train::Config::DataParallel().first_bucket_mib;
  bool synchronised = true;
  bool compute = true;
  std::string json;
};

// The command line, read into `arguments` when `app` parses.
void describe(CLI::App& app, Arguments& arguments) {
  app.add_option("--model", arguments.model,
                 "mlp: 784-512-256-10, batch 256; mlp_big: 784-2048-2048-10, batch 512")
      ->check(CLI::IsMember({"mlp", "mlp_big"}));
  app.add_option("--workers", arguments.workers, "world sizes, one after the other")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  app.add_option("--launcher", arguments.launcher)->check(CLI::IsMember({"processes", "threads"}));
  app.add_option("--steps", arguments.steps, "steps that count; 0: by model");
  app.add_option("--warmup", arguments.warmup, "steps before them; 0: by model");
  app.add_option("--overlap", arguments.overlap, "of communication with the backward pass")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--optimizer", arguments.optimizer, "sgd: with momentum")
      ->check(CLI::IsMember({"sgd", "adam"}));
  app.add_option("--sharding", arguments.sharding, "data_parallel.sharding")
      ->check(CLI::IsMember({"none", "optimizer"}));
  app.add_option("--algorithm", arguments.algorithm, "of the all-reduce");
  app.add_option("--pin", arguments.pin, "confine each worker to cores of its own: compute.pin")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  std::vector<std::string> hooks;
  for (const train::HookSpec& hook : train::hooks()) hooks.push_back(hook.name);
  app.add_option("--hook", arguments.hook, "how buckets are compressed; power_sgd from step 1 on")
      ->check(CLI::IsMember(hooks));
  app.add_option("--bucket-mib", arguments.bucket_mib, "size of a bucket of gradients");
  app.add_option("--first-bucket-mib", arguments.first_bucket_mib, "size of the first one");
  app.add_flag("!--no-sync", arguments.synchronised, "only the steps without communication");
  app.add_flag("!--no-compute", arguments.compute, "only the steps with communication");
  app.add_option("--json", arguments.json, "write one JSON object a line, one for each world size");
}

// A model and its batch, as peers/ddp_step.py has them.
struct Workload {
  std::vector<std::int64_t> hidden;
  std::int64_t batch = 0;  // rows, of all workers together
  int steps = 0, warmup = 0;

  // Of one step's products, a multiply-add being two operations: forward, and backward to weights
  // and to inputs, which the first layer's input does not need.
  double operations() const {
    double multiplied = 0;
    std::int64_t inputs = features;
    for (std::size_t layer = 0; layer <= hidden.size(); ++layer) {
      const std::int64_t outputs = layer < hidden.size() ? hidden[layer] : classes;
      multiplied += static_cast<double>((layer == 0 ? 2 : 3) * inputs * outputs);
      inputs = outputs;
    }
    return 2 * multiplied * static_cast<double>(batch);
  }
};

Workload workload_of(const Arguments& arguments) {
  Workload workload = arguments.model == "mlp" ? Workload{{512, 256}, 256, 200, 40}
                                               : Workload{{2048, 2048}, 512, 20, 5};
  if (arguments.steps > 0) workload.steps = arguments.steps;
  if (arguments.warmup > 0) workload.warmup = arguments.warmup;
  return workload;
}

train::Config config_of(const Arguments& arguments, const Workload& workload) {
  train::Config config;
  config.seed = 1;
  config.model = {"mlp", {{"hidden", workload.hidden}}};
  config.train.batch_size = workload.batch;
  config.optimizer.name = arguments.optimizer;
  config.optimizer.lr = arguments.optimizer == "sgd" ? 0.01 : 0.001;
  config.optimizer.momentum = arguments.optimizer == "sgd" ? 0.9 : 0;
  config.data_parallel = {arguments.bucket_mib, arguments.first_bucket_mib,
                          arguments.overlap == "on"};
  config.data_parallel.sharding = arguments.sharding;
  config.data_parallel.hook = arguments.hook;
  config.data_parallel.power_sgd_start = 1;
  config.comm.algorithm = arguments.algorithm;
  return config;
}

// All processes of the host share this clock.
double clock_seconds() {
  return std::chrono::duration<double>(device::Clock::now().time_since_epoch()).count();
}

// Of a sorted sample, between its elements.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

struct Summary {
  double q1 = 0, median = 0, q3 = 0, mean = 0;
  explicit Summary(std::vector<double> sample) {
    std::sort(sample.begin(), sample.end());
    q1 = quantile(sample, 0.25);
    median = quantile(sample, 0.5);
    q3 = quantile(sample, 0.75);
    for (const double value : sample) mean += value / static_cast<double>(sample.size());
  }
};

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
        context_(device::make_cpu_context(1)),
        communicator_(
            comm::make_ring_communicator(worker.join("train_step", std::chrono::seconds(30)),
                                         train::communicator_options(config_))) {
    make_batch();
  }

  // `floor`: seconds that the products take at the processor's peak, on all cores there are.
  // `launched_at`: when the launcher started the ranks, as clock_seconds() says it.
  void run(double floor, double launched_at) {
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
    features_ = Tensor::empty(*context_, Shape{rows, features}, DType::float32);
    labels_ = Tensor::empty(*context_, Shape{rows}, DType::int64);
    std::uint64_t draw = 0;
    for (float& value : features_.elements<float>())
      value = static_cast<float>(random.normal(draw++));
    for (std::int64_t& label : labels_.elements<std::int64_t>())
      label = static_cast<std::int64_t>(random.below(classes, draw++));
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
    communicator_
        ->all_reduce(comm::range_of(std::span(&value, 1)), comm::ReduceOp::max,
                     context_->compute_stream())
        .wait();
    return value;
  }

  void report(const std::optional<Series>& steps, std::optional<double> compute,
              double floor) const;

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

// A column that was not measured shows as "-", and in JSON as null.
std::string cell(std::optional<double> value, int width, int digits) {
  return value ? fmt::format("{:>{}.{}f}", *value, width, digits)
               : fmt::format("{:>{}}", "-", width);
}
std::string json(std::optional<double> value) {
  return value ? fmt::format("{:.6g}", *value) : "null";
}

void print_heading(const Arguments& arguments, double peak) {
  const Workload workload = workload_of(arguments);
  fmt::print("# train_step: {}, 784-{}-10, global batch {}, {} steps, {}, overlap {}, hook {}\n",
             arguments.model, fmt::join(workload.hidden, "-"), workload.batch, workload.steps,
             arguments.launcher, arguments.overlap, arguments.hook);
  fmt::print("# products: {:.2f} GFLOP a step; peak of a core: {:.0f} GFLOP/s. Times in ms\n",
             workload.operations() * 1e-9, peak * 1e-9);
  fmt::print("{:>7} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9}\n",
             "workers", "step", "q1", "q3", "mean", "samples/s", "compute", "exposed", "hidden",
             "floor", "PSS MiB", "start", "sent MiB");
  std::fflush(stdout);
}

void Bench::report(const std::optional<Series>& steps, std::optional<double> compute,
                   double floor) const {
  std::optional<double> q1, median, q3, mean, rate, exposed, hidden, start, memory, sent;
  if (steps) {
    const Summary step(steps->steps);
    q1 = step.q1, median = step.median, q3 = step.q3, mean = step.mean;
    rate = static_cast<double>(workload_.batch) / step.median;
    exposed = Summary(steps->exposed).median;
    hidden = Summary(steps->hidden).median;
    start = start_;
    memory = memory_;
    sent = static_cast<double>(steps->sent);
  }

  const auto ms = [](std::optional<double> seconds) {
    return cell(seconds ? std::optional(*seconds * 1e3) : seconds, 9, 3);
  };
  const auto mebibytes = [](std::optional<double> bytes, int width, int digits) {
    return cell(bytes ? std::optional(*bytes / (1 << 20)) : bytes, width, digits);
  };
  fmt::print("{:>7} {} {} {} {} {} {} {} {} {} {} {} {}\n", worker_.world_size(), ms(median),
             ms(q1), ms(q3), ms(mean), cell(rate, 10, 0), ms(compute), ms(exposed), ms(hidden),
             ms(floor), mebibytes(memory, 8, 1),
             cell(start ? std::optional(*start * 1e3) : start, 9, 1), mebibytes(sent, 9, 3));
  std::fflush(stdout);
  if (arguments_.json.empty()) return;
  std::ofstream file(arguments_.json, std::ios::app);
  file
      << fmt::format(
             R"({{"benchmark": "train_step", "model": "{}", "batch": {}, "workers": {}, "launcher": "{}", )"
             R"("overlap": {}, "steps": {}, "median": {}, "q1": {}, "q3": {}, "mean": {}, "compute": {}, )"
             R"("exposed": {}, "hidden": {}, "floor": {}, "samples_per_second": {}, "pss_bytes": {}, )"
             R"("start": {}, "hook": "{}", "sent_bytes": {}}})",
             arguments_.model, workload_.batch, worker_.world_size(), arguments_.launcher,
             config_.data_parallel.overlap, workload_.steps, json(median), json(q1), json(q3),
             json(mean), json(compute), json(exposed), json(hidden), json(floor), json(rate),
             json(memory), json(start), arguments_.hook, json(sent))
      << '\n';
  if (!file.flush()) throw UsageError("cannot write " + arguments_.json);
}

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

int launch(const Arguments& arguments, const std::string& words, int workers, double peak) {
  const auto cores = std::min(static_cast<unsigned>(workers), std::thread::hardware_concurrency());
  const double floor = workload_of(arguments).operations() / peak / cores;
  train::LaunchOptions options;
  options.workers = workers;
  if (arguments.launcher == "threads") options.kind = train::LaunchKind::threads;
  options.settings = {{arguments_key, words},
                      {floor_key, fmt::format("{:.9g}", floor)},
                      {launched_at_key, fmt::format("{:.9f}", clock_seconds())}};
  return train::launch(options, run_rank, Log());
}

int run(int argc, char** argv) {
  if (const auto code = train::run_if_worker(argc, argv, run_rank)) return *code;
  CLI::App app("Times training steps of N replicas on this host.");
  Arguments arguments;
  describe(app, arguments);
  CLI11_PARSE(app, argc, argv);
  if (!arguments.json.empty() && !std::ofstream(arguments.json, std::ios::trunc)) {
    fmt::print(stderr, "cannot write {}\n", arguments.json);
    return 2;
  }
  const double peak = measure_fma_peak();
  print_heading(arguments, peak);
  std::string words;
  for (int i = 1; i < argc; ++i) words += std::string(argv[i]) + '\n';
  for (const int workers : arguments.workers)
    if (const int code = launch(arguments, words, workers, peak); code != 0) return code;
  return 0;
}

}  // namespace
}  // namespace lockstep::benchmarks

int main(int argc, char** argv) {
  return lockstep::benchmarks::run(argc, argv);
}
