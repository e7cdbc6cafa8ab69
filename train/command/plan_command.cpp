#include "train/command/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "comm/backend.h"
#include "comm/memory/group.h"
#include "comm/ring/ring.h"
#include "data/dataset_file.h"
#include "framework/base/units.h"
#include "framework/device/cpu/cpu_context.h"
#include "train/config/locate.h"
#include "train/exit_code.h"
#include "train/recipe.h"

namespace lockstep::train {
namespace {

// The part of a parameter's gradient that a bucket holds; elements of the parameter.
struct Part {
  std::string name;
  std::int64_t begin = 0, end = 0, of = 0;
};

struct Row {
  comm::Bucket bucket;
  std::string algorithm;
  std::vector<Part> parts;
};

struct Plan {
  std::string backend;
  int workers = 1;
  DeviceKind device = DeviceKind::cpu;
  std::optional<comm::CostEstimate> cost;  // that the size of the buckets follows from
  std::vector<Row> rows;
};

std::vector<Part> parts_of(const comm::Bucket& bucket, const nn::ParameterArena& arena) {
  std::vector<Part> parts;
  for (const auto& entry : arena.segments()[bucket.segment].entries) {
    const std::int64_t begin = std::max(bucket.begin, entry.begin);
    const std::int64_t end = std::min(bucket.end, entry.end);
    if (begin < end)
      parts.push_back(
          {entry.name, begin - entry.begin, end - entry.begin, entry.end - entry.begin});
  }
  return parts;
}

// What all-reduces of these sizes are done by. Only the project's own ring tells: between CPUs when
// its ranks have met, which are threads here.
std::vector<std::string> algorithms(const RunSetup& setup,
                                    const std::vector<comm::Bucket>& buckets) {
  const Config& config = setup.config;
  std::vector<std::string> names(buckets.size(), config.comm.algorithm);
  if (setup.backend.name != "ring") return names;
  if (setup.device_kind() == DeviceKind::cuda) {
    for (std::size_t b = 0; b < buckets.size(); ++b)
      names[b] =
          comm::cuda_ring_algorithm(config.comm.algorithm, buckets[b].bytes(), setup.workers);
    return names;
  }
  auto groups = comm::make_thread_groups(setup.workers);
  std::vector<std::future<std::unique_ptr<comm::Communicator>>> ranks;
  for (auto& group : groups)
    ranks.push_back(std::async(std::launch::async, [&config, &group] {
      return comm::make_ring_communicator(std::move(group), communicator_options(config));
    }));
  std::vector<std::unique_ptr<comm::Communicator>> communicators;
  for (auto& rank : ranks) communicators.push_back(rank.get());
  for (std::size_t b = 0; b < buckets.size(); ++b)
    names[b] = communicators.front()->algorithm_for(buckets[b].bytes());
  return names;
}

// Lays out a replica in a world of its own, on a CPU, as training does: the layout knows neither
// the number of workers nor their device, only costs and algorithms do.
Plan make_plan(const PlanRequest& request) {
  RunSetup setup =
      choose_setup(load_config(locate_config(request.config), request.overrides), request);
  choose_places_and_tuning(setup, /*checkpoint=*/"");
  Config& config = setup.config;
  if (!config.seed) config.seed = 0;  // the values do not matter
  const comm::CostEstimate cost = comm::find_backend(setup.backend.name).cost(setup.device.gpus);
  const data::DatasetInfo data = data::DatasetFile(config.data.file).info();
  const auto context = device::make_cpu_context();
  auto groups = comm::make_thread_groups(1);
  const auto communicator = comm::make_ring_communicator(std::move(groups[0]), {});
  const auto replica =
      make_replica(config, *context, *communicator,
                   {data.feature_shape, data.classes, config.train.dtype}, FaultHook(), cost.cost);
  const auto& buckets = replica->averager().plan().buckets;
  const auto names = algorithms(setup, buckets);
  Plan plan{setup.backend.name, setup.workers, setup.device_kind(), {}, {}};
  if (!config.data_parallel.bucket_mib) plan.cost = cost;
  for (std::size_t b = 0; b < buckets.size(); ++b)
    plan.rows.push_back({buckets[b], names[b], parts_of(buckets[b], replica->arena())});
  return plan;
}

std::string name_of(DeviceKind device) {
  return device == DeviceKind::cuda ? "cuda" : "cpu";
}

std::string described(const std::vector<Part>& parts) {
  constexpr std::size_t most = 4;
  const auto one = [](const Part& part) {
    return part.end - part.begin == part.of
               ? part.name
               : fmt::format("{}[{}:{}]", part.name, part.begin, part.end);
  };
  if (parts.empty()) return "";
  std::string text = one(parts.front());
  if (parts.size() > most)
    return fmt::format("{} ... {} ({} tensors)", text, one(parts.back()), parts.size());
  for (std::size_t p = 1; p < parts.size(); ++p) text += ", " + one(parts[p]);
  return text;
}

void print_table(const Plan& plan) {
  constexpr std::size_t columns = 7;
  using Cells = std::array<std::string, columns>;
  std::vector<Cells> lines{
      {"bucket", "type", "begin", "end", "bytes", "algorithm", "tensors, in elements"}};
  std::size_t bytes = 0;
  for (std::size_t b = 0; b < plan.rows.size(); ++b) {
    const auto& [bucket, algorithm, parts] = plan.rows[b];
    bytes += bucket.bytes();
    lines.push_back({std::to_string(b), std::string(base::name_of(bucket.dtype)),
                     std::to_string(bucket.begin), std::to_string(bucket.end),
                     base::format_bytes(bucket.bytes()), algorithm, described(parts)});
  }
  std::array<std::size_t, columns> widths{};
  for (const Cells& line : lines)
    for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], line[c].size());
  fmt::print(
      "{} bucket{} of {} in all, in the order in which the backward pass fills them; {} "
      "worker{} on {}, backend {}\n",
      plan.rows.size(), plan.rows.size() == 1 ? "" : "s", base::format_bytes(bytes), plan.workers,
      plan.workers == 1 ? "" : "s", name_of(plan.device), plan.backend);
  if (plan.cost)
    fmt::print(
        "as large as latency and bandwidth of an all-reduce make best: {} and {:g} GB/s, {}\n",
        base::format_duration(plan.cost->cost.latency), plan.cost->cost.bytes_per_second / 1e9,
        plan.cost->source);
  fmt::print("\n");
  for (const Cells& line : lines)
    fmt::print("{:>{}}  {:<{}}  {:>{}}  {:>{}}  {:>{}}  {:<{}}  {}\n", line[0], widths[0], line[1],
               widths[1], line[2], widths[2], line[3], widths[3], line[4], widths[4], line[5],
               widths[5], line[6]);
}

void print_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  Json document{
      {"backend", plan.backend}, {"workers", plan.workers}, {"device", name_of(plan.device)}};
  if (plan.cost)
    document["cost"] = {{"latency", plan.cost->cost.latency},
                        {"bytes_per_second", plan.cost->cost.bytes_per_second},
                        {"source", plan.cost->source}};
  Json& buckets = document["buckets"] = Json::array();
  for (const auto& [bucket, algorithm, parts] : plan.rows) {
    Json tensors = Json::array();
    for (const Part& part : parts)
      tensors.push_back(
          {{"name", part.name}, {"begin", part.begin}, {"end", part.end}, {"elements", part.of}});
    buckets.push_back({{"segment", bucket.segment},
                       {"dtype", base::name_of(bucket.dtype)},
                       {"begin", bucket.begin},
                       {"end", bucket.end},
                       {"bytes", bucket.bytes()},
                       {"algorithm", algorithm},
                       {"tensors", std::move(tensors)}});
  }
  fmt::print("{}\n", document.dump(2));
}

}  // namespace

int print_plan(const PlanRequest& request) {
  const Plan plan = make_plan(request);
  if (request.json)
    print_json(plan);
  else
    print_table(plan);
  return exit_done;
}

}  // namespace lockstep::train
