// What a training step costs beside its arithmetic and its communication:
//
// - averager: (step - compute-only step - stand-alone all-reduces of the same buckets) / step,
//   without overlap, so that the three stand one after the other;
// - recording: a step whose every event is recorded against one that is not, with overlap;
// - digest: a check that all replicas are equal, as a share of the ten steps between two checks.
//
// The ranks are threads with one compute thread each. The series alternate, so that a slow spell of
// the machine falls on all of them; a figure is the median over the alternations of a value made of
// the medians inside one. Steps without communication are parted by barriers, since all-reduces
// part the others.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "benchmarks/bench.h"
#include "benchmarks/command_line.h"
#include "comm/ring/ring.h"
#include "data/sampler.h"
#include "framework/base/random.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/ops/cross_entropy.h"
#include "train/launch/launch.h"
#include "train/parallel/consistency.h"
#include "train/recipe.h"

namespace lockstep::benchmarks {
namespace {

constexpr std::int64_t features = 784;
constexpr std::int64_t classes = 10;
constexpr std::int64_t first_traced_step = 1'000'001, most_traced_steps = 1000;

struct Arguments {
  std::string model = "mlp";
  int workers = 2;
  int alternations = 5;
  int steps = 0;
  std::string json;
};

struct Workload {
  std::vector<std::int64_t> hidden;
  std::int64_t batch = 0;
  int steps = 0;
};

Workload workload_of(const Arguments& arguments) {
  Workload workload =
      arguments.model == "mlp" ? Workload{{512, 256}, 256, 100} : Workload{{2048, 2048}, 512, 12};
  if (arguments.steps > 0) workload.steps = arguments.steps;
  return workload;
}

train::Config config_of(const Workload& workload, bool overlap) {
  train::Config config;
  config.seed = 1;
  config.model = {"mlp", {{"hidden", workload.hidden}}};
  config.train.batch_size = workload.batch;
  config.optimizer.name = "sgd";
  config.optimizer.lr = 0.01;
  config.optimizer.momentum = 0.9;
  config.data_parallel.overlap = overlap;
  config.run.trace = first_traced_step;
  config.run.trace_steps = most_traced_steps;
  return config;
}

// Rank 0's results, one for each alternation.
struct Results {
  std::vector<double> step, compute, reduce, averager;  // without overlap
  std::vector<double> overlapped, recorded, recording;  // with overlap
  std::vector<double> check, digest;
};

// One rank's part.
class Bench {
 public:
  Bench(const Arguments& arguments, train::Worker& worker)
      : arguments_(arguments),
        workload_(workload_of(arguments)),
        sequential_config_(config_of(workload_, false)),
        overlapped_config_(config_of(workload_, true)),
        context_(device::make_cpu_context(1)),
        communicator_(
            comm::make_ring_communicator(worker.join("bench", std::chrono::seconds(30)), {})) {
    const auto rows = data::shard(workload_.batch, worker.rank(), worker.world_size()).size();
    const base::RandomStream random(1, "benchmark", static_cast<std::uint64_t>(worker.rank()));
    features_ = Tensor::empty(*context_, Shape{rows, features});
    labels_ = Tensor::empty(*context_, Shape{rows}, DType::int64);
    std::uint64_t draw = 0;
    for (float& value : features_.elements<float>())
      value = static_cast<float>(random.normal(draw++));
    for (std::int64_t& label : labels_.elements<std::int64_t>())
      label = static_cast<std::int64_t>(random.below(classes, draw++));
  }

  Results run() {
    const auto sequential = make_replica(sequential_config_);
    const auto overlapped = make_replica(overlapped_config_);
    train::ConsistencyCheck check(*context_, *communicator_,
                                  train::replicated_tensors(*overlapped));
    Results results;
    std::int64_t step = 0, traced = first_traced_step - 1;
    for (int a = 0; a <= arguments_.alternations; ++a) {
      const double whole = median_of([&] { take_step(*sequential, ++step); });
      const double compute = median_of([&] { compute_step(*sequential, ++step); });
      const double reduce = median_of([&] { reduce_buckets(*sequential); });
      const double plain = median_of([&] { take_step(*overlapped, ++step); });
      const double recorded = median_of([&] { take_step(*overlapped, ++traced); });
      const double checked = median_of([&] { check.run(1, context_->compute_stream()); });
      if (a == 0) continue;  // to warm up
      results.step.push_back(whole);
      results.compute.push_back(compute);
      results.reduce.push_back(reduce);
      results.averager.push_back((whole - compute - reduce) / whole);
      results.overlapped.push_back(plain);
      results.recorded.push_back(recorded);
      results.recording.push_back((recorded - plain) / plain);
      results.check.push_back(checked);
      results.digest.push_back(checked / (10 * plain));
    }
    return results;
  }

 private:
  std::unique_ptr<train::Replica> make_replica(const train::Config& config) {
    return train::make_replica(config, *context_, *communicator_,
                               {Shape{features}, classes, DType::float32}, no_faults_);
  }

  template <class Body>
  double median_of(const Body& body) {
    std::vector<double> seconds;
    communicator_->barrier(context_->compute_stream()).wait();
    auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < workload_.steps; ++i) {
      body();
      const auto now = std::chrono::steady_clock::now();
      seconds.push_back(std::chrono::duration<double>(now - before).count());
      before = now;
    }
    return median(std::move(seconds));
  }

  void forward_backward(train::Replica& replica) {
    const Variable logits = replica.model()(Variable(features_));
    const auto loss =
        ops::cross_entropy(logits, labels_, 1.0 / static_cast<double>(workload_.batch));
    replica.backward(loss.loss_sum);
    replica.finish_backward();
  }

  void take_step(train::Replica& replica, std::int64_t step) {
    replica.begin_step(step);
    replica.begin_update(step);
    forward_backward(replica);
    if (!replica.update(sequential_config_.optimizer.lr))
      throw NumericError(fmt::format("the gradients of step {} are not finite", step));
    replica.end_step();
  }

  // Replicas drift apart here, which changes no time.
  void compute_step(train::Replica& replica, std::int64_t step) {
    replica.begin_update(step, 1, /*average=*/false);
    forward_backward(replica);
    replica.optimizer().begin_update(sequential_config_.optimizer.lr);
    for (const auto& bucket : replica.averager().plan().buckets)
      replica.optimizer().apply(bucket.segment, bucket.begin, bucket.end);
    communicator_->barrier(context_->compute_stream()).wait();
  }

  void reduce_buckets(train::Replica& replica) {
    for (const auto& bucket : replica.averager().plan().buckets) {
      const Tensor part =
          replica.arena().segments()[bucket.segment].gradients.slice(0, bucket.begin, bucket.end);
      communicator_
          ->all_reduce({part.data(), part.count(), part.dtype()}, comm::ReduceOp::sum,
                       context_->compute_stream())
          .wait();
    }
  }

  const Arguments& arguments_;
  const Workload workload_;
  const train::Config sequential_config_, overlapped_config_;
  const train::FaultHook no_faults_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<comm::Communicator> communicator_;
  Tensor features_, labels_;
};

void report(const Arguments& arguments, const Results& results) {
  Report table({"model", "workers", "figure", "median", "smallest", "largest"});
  const auto add = [&](const char* figure, const std::vector<double>& values, double factor) {
    const Timing of = summarise(values);
    table.add({arguments.model, std::int64_t{arguments.workers}, figure, of.median * factor,
               of.min * factor, of.max * factor});
  };
  add("step without overlap, us", results.step, 1e6);
  add("compute-only step, us", results.compute, 1e6);
  add("all-reduces of the buckets, us", results.reduce, 1e6);
  add("averager, % of the step", results.averager, 100);
  add("step with overlap, us", results.overlapped, 1e6);
  add("the same recorded, us", results.recorded, 1e6);
  add("recording, % of the step", results.recording, 100);
  add("check of all replicas, us", results.check, 1e6);
  add("check, % of ten steps", results.digest, 100);
  table.print();
  if (!arguments.json.empty()) write_file(arguments.json, table.json() + "\n");
}

int run(int argc, char** argv) {
  CLI::App app("Costs of averaging, recording and checking beside a training step.");
  Arguments arguments;
  app.add_option("--model", arguments.model, "mlp or mlp_big, those of train_step")
      ->check(CLI::IsMember({"mlp", "mlp_big"}));
  app.add_option("--workers", arguments.workers)->check(CLI::Range(2, 64));
  app.add_option("--alternations", arguments.alternations)->check(CLI::Range(1, 50));
  app.add_option("--steps", arguments.steps, "of each series; 0: by model")
      ->check(CLI::Range(0, 150));
  app.add_option("--json", arguments.json, "write the table to this file");
  if (const auto code = parse(app, argc, argv)) return *code;
  if ((arguments.alternations + 1) * workload_of(arguments).steps > most_traced_steps) {
    fmt::print(stderr, "--alternations and --steps: at most {} steps can be recorded\n",
               most_traced_steps);
    return 2;
  }
  train::LaunchOptions options;
  options.workers = arguments.workers;
  options.kind = train::LaunchKind::threads;
  return train::launch(
      options,
      [&](train::Worker& worker) {
        const Results results = Bench(arguments, worker).run();
        if (worker.rank() == 0) report(arguments, results);
      },
      Log());
}

}  // namespace
}  // namespace lockstep::benchmarks

int main(int argc, char** argv) {
  return lockstep::benchmarks::run(argc, argv);
}
