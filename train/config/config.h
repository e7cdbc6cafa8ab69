// Config: everything a run is told, checked. The members are named as the YAML keys are; the one
// table that says each key's type, range, default and meaning is in schema.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "models/registry.h"

namespace lockstep::train {

struct Config {
  std::optional<std::uint64_t> seed;  // drawn and logged when absent
  struct Model {
    std::string name;
    Options options;  // the other keys of the section, checked against the model's own table
    bool operator==(const Model&) const = default;
  } model;
  struct Data {
    std::string file;
    bool shuffle = true;
    bool drop_last = false;
    int prefetch = 2;                                 // batches
    std::size_t memory_limit = std::size_t{1} << 30;  // bytes, for each host
    double wait_warning = 0.2;  // share of the step time above which the log says "data"
    bool operator==(const Data&) const = default;
  } data;
  struct Train {
    std::int64_t epochs = 1;
    std::optional<std::int64_t> steps;  // ends the run after so many updates, within the epochs
    std::int64_t batch_size = 0;        // global, for each update
    std::int64_t accumulate = 1;        // micro-batches for each update
    std::string on_nonfinite = "stop";  // stop|skip
    std::string loss_scale = "none";    // none|dynamic
    DType dtype = DType::float32;       // float32|float64
    double label_smoothing = 0;
    std::int64_t evaluate_every = 1;  // epochs; 0: only at the end
    std::int64_t log_every = 0;       // steps between metrics lines; 0: chosen by time
    bool operator==(const Train&) const = default;
  } train;
  struct Optimizer {
    std::string name;  // sgd|adam|adamw
    double lr = 0;
    double momentum = 0;
    bool nesterov = false;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0;
    std::optional<double> clip_norm;
    std::optional<double> clip_value;
    std::string per_bucket = "auto";  // auto|on|off
    bool operator==(const Optimizer&) const = default;
  } optimizer;
  struct Schedule {
    std::string name = "constant";  // constant|step|cosine
    std::int64_t warmup_steps = 0;
    std::int64_t step_every = 1;  // epochs
    double factor = 0.1;
    double minimum = 0;  // as a fraction of lr
    bool operator==(const Schedule&) const = default;
  } schedule;
  struct DataParallel {
    std::optional<double> bucket_mib = 4;  // none: from the costs of the backend
    double first_bucket_mib = 1;
    bool overlap = true;
    std::string sharding = "none";  // none|optimizer
    std::string hook = "none";      // see train/parallel/hooks/hooks.h
    double top_k_ratio = 0.01;      // of a bucket's elements
    int power_sgd_rank = 4;
    std::int64_t power_sgd_start = 100;       // updates
    std::string unused_parameters = "error";  // error|zero
    std::string buffers = "broadcast";        // broadcast|average
    bool operator==(const DataParallel&) const = default;
  } data_parallel;
  struct Comm {
    std::string backend = "auto";            // see comm/backend.h
    std::string algorithm = "auto";          // of all_reduce
    std::optional<std::string> tuning_file;  // see train/tuning_file.h
    std::optional<std::string> tuning;       // what "auto" is; from the file where there is one
    double timeout = 60;                     // seconds
    double start_timeout = 60;               // seconds
    std::optional<std::string> interface;
    std::optional<int> port;            // of the rendezvous store; none: a private socket
    std::string check = "every";        // every|plan|off
    std::optional<int> ranks_per_host;  // that count as one, to imitate hosts; none: as they are
    bool operator==(const Comm&) const = default;
  } comm;
  struct Consistency {
    std::int64_t every = 100;            // steps; 0: never
    std::string on_divergence = "stop";  // stop|resync|warn
    bool operator==(const Consistency&) const = default;
  } consistency;
  struct Checkpoint {
    std::optional<std::int64_t> every_steps;
    std::optional<std::int64_t> every_epochs = 1;
    int keep_last = 2;
    std::string on_error = "stop";  // stop|continue
    bool operator==(const Checkpoint&) const = default;
  } checkpoint;
  struct Compute {
    std::string device = "auto";       // auto|cuda|cpu
    std::optional<int> threads;        // for each worker; none: cores / workers, at least 1
    std::string pin = "auto";          // auto|on|off
    std::string products = "float32";  // float32|tf32|bfloat16
    std::string graph = "auto";        // auto|on|off
    bool operator==(const Compute&) const = default;
  } compute;
  struct Run {
    std::string folder = "runs";
    std::optional<std::string> name;    // none: <config>-<time>
    std::string log_level = "info";     // debug|info|warning|error
    std::optional<std::int64_t> trace;  // the first update that is traced; none: off
    std::int64_t trace_steps = 20;      // how many are
    bool operator==(const Run&) const = default;
  } run;

  bool operator==(const Config&) const = default;
};

}  // namespace lockstep::train
