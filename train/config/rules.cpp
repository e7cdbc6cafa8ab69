#include "train/config/rules.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "comm/ring/algorithm_table.h"
#include "framework/base/error.h"

namespace lockstep::train {

namespace {

// The setting by which an update may be left out, if there is one.
const char* skip_setting(const Config& config) {
  if (config.train.on_nonfinite == "skip") return "train.on_nonfinite: skip";
  if (config.train.loss_scale == "dynamic") return "train.loss_scale: dynamic";
  return nullptr;
}

// The setting that has to see all gradients before any parameter is updated, if there is one.
const char* decision_over_all_gradients(const Config& config) {
  if (const char* const skips = skip_setting(config)) return skips;
  if (config.optimizer.clip_norm) return "optimizer.clip_norm";
  if (config.data_parallel.sharding == "optimizer") return "data_parallel.sharding: optimizer";
  return nullptr;
}

// Values that are not 0 as they are given and are as they are used.
void add_precision_rules(const Config& config, std::vector<BrokenRule>& broken) {
  if (config.train.dtype != DType::float32) return;
  const auto require = [&](const char* key, double value) {
    if (static_cast<float>(value) > 0) return;
    broken.push_back({key, fmt::format("found {}, which is 0 in float32, expected at least {:g} or "
                                       "train.dtype: float64",
                                       value, std::numeric_limits<float>::min())});
  };
  if (config.optimizer.clip_value) require("optimizer.clip_value", *config.optimizer.clip_value);
  require("optimizer.epsilon", config.optimizer.epsilon);
}

void add_host_rule(const Config::Comm& comm, std::vector<BrokenRule>& broken) {
  if (!comm.ranks_per_host || comm.backend == "auto") return;
  if (comm.backend.find('+') == std::string::npos)
    broken.push_back(
        {"comm.ranks_per_host",
         fmt::format("has an effect only with comm.backend: auto or ring+..., found {}",
                     comm.backend)});
}

void add_graph_rules(const Config& config, std::vector<BrokenRule>& broken) {
  if (config.compute.graph != "on") return;
  const auto refuse = [&](const std::string& why) {
    broken.push_back({"compute.graph", "found on, expected auto or off with " + why});
  };
  if (config.compute.device == "cpu") refuse("compute.device: cpu, which has no graphs");
  if (const std::string decided = decided_on_host(config); !decided.empty())
    refuse(decided + ", for which the host waits in every update");
  if (config.comm.backend != "auto" && config.comm.backend != "ring")
    refuse(
        fmt::format("comm.backend: {}, whose collectives cannot be captured", config.comm.backend));
}

void add_tuning_rules(const Config::Comm& comm, std::vector<BrokenRule>& broken) {
  if (!comm.tuning && !comm.tuning_file) return;
  const std::string key = comm.tuning ? "comm.tuning" : "comm.tuning_file";
  if (comm.backend != "ring" && comm.backend != "auto")
    broken.push_back(
        {key, fmt::format("has an effect only with comm.backend: ring or auto, found {}",
                          comm.backend)});
  if (comm.tuning && comm.tuning_file)
    broken.push_back({key, "found together with comm.tuning_file, expected one of them"});
  if (!comm.tuning) return;
  try {
    comm::ring::AlgorithmTable::parse(*comm.tuning);
  } catch (const ConfigError& error) {
    broken.push_back({key, error.what()});
  }
}

std::string why_no_products(const Config& config) {
  const std::string& products = config.compute.products;
  if (products == "float32") return {};
  if (config.compute.device == "cpu")
    return fmt::format("found {}, expected float32 for workers on CPUs", products);
  if (config.train.dtype != DType::float32)
    return fmt::format("found {} with train.dtype: {}, expected float32, or train.dtype: float32",
                       products, base::name_of(config.train.dtype));
  return {};
}

}  // namespace

bool may_skip(const Config& config) {
  return skip_setting(config) != nullptr;
}

std::string decided_on_host(const Config& config) {
  // These keep nothing from step to step, so that the host has no part in them.
  const std::string& hook = config.data_parallel.hook;
  if (hook == "none" || hook == "bf16" || hook == "fp16") return {};
  return "data_parallel.hook: " + hook;
}

std::vector<BrokenRule> broken_rules(const Config& config) {
  std::vector<BrokenRule> broken;
  if (const std::string why = why_no_products(config); !why.empty())
    broken.push_back({"compute.products", why});
  if (config.train.accumulate > config.train.batch_size) {
    broken.push_back(
        {"train.accumulate", fmt::format("found {}, expected at most train.batch_size, which is {}",
                                         config.train.accumulate, config.train.batch_size)});
  }
  if (config.optimizer.nesterov && config.optimizer.momentum == 0) {
    broken.push_back(
        {"optimizer.nesterov", "found true with optimizer.momentum: 0, expected momentum > 0"});
  }
  if (config.optimizer.clip_norm && config.optimizer.clip_value) {
    broken.push_back({"optimizer.clip_value",
                      fmt::format("found {} with optimizer.clip_norm: {}, expected one of the two",
                                  *config.optimizer.clip_value, *config.optimizer.clip_norm)});
  }
  if (config.data_parallel.hook != "none" && config.data_parallel.sharding != "none") {
    broken.push_back({"data_parallel.hook",
                      fmt::format("found {}, expected none with data_parallel.sharding: {}, whose "
                                  "shards are slices of the plain sum",
                                  config.data_parallel.hook, config.data_parallel.sharding)});
  }
  if (const char* decision = decision_over_all_gradients(config);
      decision && config.optimizer.per_bucket == "on") {
    broken.push_back({"optimizer.per_bucket",
                      fmt::format("found on, expected auto or off with {}, which decides over all "
                                  "gradients before the first is applied",
                                  decision)});
  }
  add_precision_rules(config, broken);
  add_host_rule(config.comm, broken);
  add_tuning_rules(config.comm, broken);
  add_graph_rules(config, broken);
  if (!config.run.trace && config.run.trace_steps != Config::Run().trace_steps) {
    broken.push_back({"run.trace_steps", "has an effect only with run.trace, found off"});
  }
  if (config.run.name && (config.run.name->find('/') != std::string::npos ||
                          *config.run.name == "." || *config.run.name == "..")) {
    broken.push_back(
        {"run.name",
         fmt::format("found {}, expected the name of a folder without a path", *config.run.name)});
  }
  return broken;
}

}  // namespace lockstep::train
