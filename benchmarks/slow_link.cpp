// One rank of a training over Gloo on a slow network: how much of the communication is hidden.
//
// Started once on every host by benchmarks/peers/slow_link.py. Rank 0 prints one JSON object with
// medians in seconds: the step with overlap and without, the compute-only step and its backward
// pass, the stand-alone all-reduces of the same buckets, how long after the start of the backward
// pass the first bucket was ready, and the true intersection of communication and computation.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <thread>

#include "benchmarks/bench.h"
#include "benchmarks/command_line.h"
#include "comm/backend.h"
#include "comm/store/store.h"
#include "data/sampler.h"
#include "framework/base/random.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/ops/cross_entropy.h"
#include "train/recipe.h"

namespace lockstep::benchmarks {
namespace {

constexpr const char* secret = "slow_link";
constexpr std::int64_t classes = 10;
constexpr std::chrono::seconds start_timeout{60};

struct Arguments {
  int rank = 0, ranks = 2;
  std::string store = "127.0.0.1";
  int port = 29620;
  std::optional<std::string> interface;
  std::int64_t width = 1024, rows = 1024;
  int layers = 8;
  double bucket_mib = 4, first_bucket_mib = 1;
  int steps = 8;
};

train::Config config_of(const Arguments& arguments, bool overlap) {
  train::Config config;
  config.seed = 1;
  config.model = {
      "mlp",
      {{"hidden", std::vector<std::int64_t>(static_cast<std::size_t>(arguments.layers - 1),
                                            arguments.width)}}};
  config.train.batch_size = arguments.rows * arguments.ranks;
  config.optimizer.name = "sgd";
  config.optimizer.lr = 0.01;
  config.optimizer.momentum = 0.9;
  config.data_parallel.bucket_mib = arguments.bucket_mib;
  config.data_parallel.first_bucket_mib = arguments.first_bucket_mib;
  config.data_parallel.overlap = overlap;
  config.run.trace = 1;  // for the moments at which buckets get ready
  config.run.trace_steps = 1000;
  return config;
}

// Seconds, one for each step that counts.
struct Series {
  std::vector<double> step, backward, first_ready, hidden, communication;
};

double seconds_between(train::Timeline::TimePoint begin, train::Timeline::TimePoint end) {
  return std::chrono::duration<double>(end - begin).count();
}

class Bench {
 public:
  Bench(const Arguments& arguments, comm::Store& store)
      : arguments_(arguments),
        context_(device::make_cpu_context(1)),
        communicator_(comm::find_backend("gloo").make({.rank = arguments.rank,
                                                       .size = arguments.ranks,
                                                       .device = context_->device(),
                                                       .store = store,
                                                       .join = nullptr,
                                                       .prefix = "slow_link",
                                                       .interface = arguments.interface,
                                                       .start_timeout = start_timeout},
                                                      {})) {
    const base::RandomStream random(1, "benchmark", static_cast<std::uint64_t>(arguments.rank));
    features_ = Tensor::empty(*context_, Shape{arguments.rows, arguments.width});
    labels_ = Tensor::empty(*context_, Shape{arguments.rows}, DType::int64);
    std::uint64_t draw = 0;
    for (float& value : features_.elements<float>())
      value = static_cast<float>(random.normal(draw++));
    for (std::int64_t& label : labels_.elements<std::int64_t>())
      label = static_cast<std::int64_t>(random.below(classes, draw++));
  }

  void run() {
    const Series overlapped = steps(true, /*average=*/true);
    const Series sequential = steps(false, /*average=*/true);
    const Series compute = steps(true, /*average=*/false);
    const double reduce = all_reduces();
    communicator_->barrier(context_->compute_stream()).wait();
    if (arguments_.rank != 0) return;
    fmt::print(R"({{"program": "lockstep", "step": {}, "without_overlap": {}, "compute": {}, )"
               R"("backward": {}, "all_reduces": {}, "first_ready": {}, "hidden": {}, )"
               R"("communication": {}}})"
               "\n",
               median(overlapped.step), median(sequential.step), median(compute.step),
               median(compute.backward), reduce, median(overlapped.first_ready),
               median(overlapped.hidden), median(overlapped.communication));
  }

 private:
  Series steps(bool overlap, bool average) {
    const auto replica =
        train::make_replica(config_of(arguments_, overlap), *context_, *communicator_,
                            {Shape{arguments_.width}, classes, DType::float32}, no_faults_);
    Series series;
    for (std::int64_t step = 1; step <= arguments_.steps + 1; ++step) {
      communicator_->barrier(context_->compute_stream()).wait();
      const auto begin = device::Clock::now();
      replica->begin_step(step);
      replica->begin_update(step, 1, average);
      const Variable logits = replica->model()(Variable(features_));
      const auto loss = ops::cross_entropy(
          logits, labels_, 1.0 / static_cast<double>(arguments_.rows * arguments_.ranks));
      const auto backward_begin = device::Clock::now();
      replica->backward(loss.loss_sum);
      const auto backward_end = device::Clock::now();
      replica->finish_backward();
      if (average) {
        replica->update(0.01);
      } else {
        replica->optimizer().begin_update(0.01);
        for (const auto& bucket : replica->averager().plan().buckets)
          replica->optimizer().apply(bucket.segment, bucket.begin, bucket.end);
      }
      const auto end = device::Clock::now();
      if (step == 1) {
        if (average) replica->end_step();
        continue;  // to warm up
      }
      series.step.push_back(seconds_between(begin, end));
      series.backward.push_back(seconds_between(backward_begin, backward_end));
      if (!average) continue;
      const train::StepParts parts = replica->end_step();
      series.hidden.push_back(parts.hidden());
      series.communication.push_back(parts.communication);
      series.first_ready.push_back(
          seconds_between(backward_begin, replica->averager().times().front().ready));
    }
    return series;
  }

  // All buckets one after the other, of gradients that are there.
  double all_reduces() {
    const auto replica =
        train::make_replica(config_of(arguments_, false), *context_, *communicator_,
                            {Shape{arguments_.width}, classes, DType::float32}, no_faults_);
    std::vector<double> seconds;
    for (int i = 0; i <= arguments_.steps; ++i) {
      communicator_->barrier(context_->compute_stream()).wait();
      const auto begin = device::Clock::now();
      for (const auto& bucket : replica->averager().plan().buckets) {
        const Tensor part = replica->arena().segments()[bucket.segment].gradients.slice(
            0, bucket.begin, bucket.end);
        communicator_
            ->all_reduce({part.data(), part.count(), part.dtype()}, comm::ReduceOp::sum,
                         context_->compute_stream())
            .wait();
      }
      if (i > 0) seconds.push_back(seconds_between(begin, device::Clock::now()));
    }
    return median(std::move(seconds));
  }

  const Arguments& arguments_;
  const train::FaultHook no_faults_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<comm::Communicator> communicator_;
  Tensor features_, labels_;
};

int run(int argc, char** argv) {
  CLI::App app("One rank of a training over Gloo on a slow network.");
  Arguments arguments;
  app.add_option("--rank", arguments.rank)->required();
  app.add_option("--ranks", arguments.ranks);
  app.add_option("--store", arguments.store, "address of rank 0");
  app.add_option("--port", arguments.port);
  app.add_option("--interface", arguments.interface);
  app.add_option("--layers", arguments.layers, "linear layers, the last to 10 classes");
  app.add_option("--width", arguments.width);
  app.add_option("--rows", arguments.rows, "of each rank");
  app.add_option("--bucket-mib", arguments.bucket_mib);
  app.add_option("--first-bucket-mib", arguments.first_bucket_mib);
  app.add_option("--steps", arguments.steps)->check(CLI::Range(1, 200));
  if (const auto code = parse(app, argc, argv)) return *code;
  std::optional<comm::StoreServer> server;
  if (arguments.rank == 0) server.emplace().listen(arguments.store, arguments.port, secret);
  const auto store = comm::connect_store(arguments.store, arguments.port, secret, start_timeout);
  Bench(arguments, *store).run();
  // The server leaves last.
  store->add("left", 1);
  while (arguments.rank == 0 && store->add("left", 0) < arguments.ranks)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return 0;
}

}  // namespace
}  // namespace lockstep::benchmarks

int main(int argc, char** argv) {
  try {
    return lockstep::benchmarks::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
