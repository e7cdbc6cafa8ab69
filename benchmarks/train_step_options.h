// The command line of train_step, and the training that it stands for.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "benchmarks/rank.h"
#include "train/config/config.h"
#include "train/parallel/hooks/hooks.h"

namespace lockstep::benchmarks {

inline constexpr std::int64_t features = 784;
inline constexpr std::int64_t classes = 10;

struct Arguments : RankOptions {
  std::string model = "mlp";
  std::vector<std::int64_t> hidden;
  std::int64_t batch = 0;
  std::vector<int> workers = {1, 2, 4, 8};
  int steps = 0;
  int warmup = 0;
  std::string overlap = "on";
  std::string optimizer = "sgd";
  std::string sharding = "none";
  std::string pin = "auto";
  std::string hook = "none";
  double bucket_mib = *train::Config::DataParallel().bucket_mib;
  double first_bucket_mib = train::Config::DataParallel().first_bucket_mib;
  bool synchronised = true;
  bool compute = true;
  std::string json;
};

// The command line, read into `arguments` when `app` parses.
inline void describe(CLI::App& app, Arguments& arguments) {
  app.add_option("--model", arguments.model,
                 "mlp: 784-512-256-10, batch 256; mlp_big: 784-2048-2048-10, batch 512")
      ->check(CLI::IsMember({"mlp", "mlp_big"}));
  app.add_option("--hidden", arguments.hidden, "widths of hidden layers in place of the model's")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", arguments.batch, "rows of all workers together; 0: by model");
  app.add_option("--workers", arguments.workers, "world sizes, one after the other")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  describe_ranks(app, arguments);
  app.add_option("--steps", arguments.steps, "steps that count; 0: by model");
  app.add_option("--warmup", arguments.warmup, "steps before them; 0: by model");
  app.add_option("--overlap", arguments.overlap, "of communication with the backward pass")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--optimizer", arguments.optimizer, "sgd: with momentum")
      ->check(CLI::IsMember({"sgd", "adam"}));
  app.add_option("--sharding", arguments.sharding, "data_parallel.sharding")
      ->check(CLI::IsMember({"none", "optimizer"}));
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

  // The widths of inputs and outputs, layer by layer.
  std::vector<std::int64_t> widths() const {
    std::vector<std::int64_t> all{features};
    all.insert(all.end(), hidden.begin(), hidden.end());
    all.push_back(classes);
    return all;
  }

  // Of one step's products, a multiply-add being two operations: forward, and backward to weights
  // and to inputs, which the first layer's input does not need.
  double operations() const {
    const std::vector<std::int64_t> width = widths();
    double multiplied = 0;
    for (std::size_t layer = 0; layer + 1 < width.size(); ++layer)
      multiplied += static_cast<double>((layer == 0 ? 2 : 3) * width[layer] * width[layer + 1]);
    return 2 * multiplied * static_cast<double>(batch);
  }
};

inline Workload workload_of(const Arguments& arguments) {
  Workload workload = arguments.model == "mlp" ? Workload{{512, 256}, 256, 200, 40}
                                               : Workload{{2048, 2048}, 512, 20, 5};
  if (!arguments.hidden.empty()) workload.hidden = arguments.hidden;
  if (arguments.batch > 0) workload.batch = arguments.batch;
  if (arguments.steps > 0) workload.steps = arguments.steps;
  if (arguments.warmup > 0) workload.warmup = arguments.warmup;
  return workload;
}

inline train::Config config_of(const Arguments& arguments, const Workload& workload) {
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

}  // namespace lockstep::benchmarks
