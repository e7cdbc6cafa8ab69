#include "train/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/base/units.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::ordered_json;

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

double percent(double part, double whole) {
  return 100 * share(part, whole);
}

// Of one rank, or a mean: they add up to the step.
Json json_of(const StepParts& parts) {
  return {{"compute", parts.compute},
          {"exposed", parts.exposed},
          {"wake_up", parts.wake_up},
          {"data_wait", parts.data_wait},
          {"summary_wait", parts.summary_wait}};
}

double per_second(double count, double seconds) {
  return seconds > 0 ? count / seconds : 0;
}

}  // namespace

void Metrics::Totals::add(const StepRecord& record) {
  summary += record.summary;
  parts += record.parts;
  data_wait_seconds += record.data_wait_seconds;
}

Metrics::Metrics(const MetricsOptions& options, const Log& log)
    : options_(options),
      log_(log),
      file_(options.file, std::ios::app),
      last_line_(std::chrono::steady_clock::now()) {
  if (!file_) throw StartupError(fmt::format("cannot write metrics to '{}'", options.file));
}

void Metrics::write(const Json& record) {
  file_ << record.dump() << '\n';
}

void Metrics::start(const StartRecord& record) {
  write({{"kind", "start"},
         {"workers", record.workers},
         {"backend", record.backend},
         {"algorithm", record.algorithm},
         {"start_up_seconds", record.start_up_seconds},
         {"parameters", record.parameters},
         {"buckets", record.buckets}});
}

void Metrics::weights(std::int64_t step, const std::string& digest) {
  write({{"kind", "weights"}, {"step", step}, {"digest", digest}});
}

void Metrics::divergence(const Divergence& divergence, const std::string& policy) {
  write({{"kind", "divergence"},
         {"step", divergence.step},
         {"ranks", divergence.ranks},
         {"reference", divergence.reference},
         {"tensor", divergence.tensor},
         {"tensors", divergence.tensors},
         {"elements", divergence.elements},
         {"largest_difference", divergence.largest_difference},
         {"policy", policy}});
  file_.flush();
}

void Metrics::step(const StepRecord& record) {
  epoch_ += record.summary;
  since_line_.add(record);
  Json line{{"kind", "step"},
            {"epoch", record.epoch},
            {"step", record.step},
            {"loss", record.summary.mean_loss()},
            {"accuracy", record.summary.accuracy()},
            {"samples", record.summary.targets},
            {"lr", record.lr},
            {"seconds", record.parts.step},
            {"data_wait_seconds", record.data_wait_seconds},
            {"communication_seconds", record.parts.communication},
            {"hidden_seconds", record.parts.hidden()},
            {"exposed_seconds", record.parts.exposed},
            {"parts", json_of(record.parts)},
            {"reduced_bytes", record.reduced_bytes},
            {"sent_bytes", record.sent_bytes}};
  write(line);

  const bool due = options_.log_every > 0
                       ? record.step - last_line_step_ >= options_.log_every
                       : std::chrono::steady_clock::now() - last_line_ >= std::chrono::seconds(1);
  if (due) progress_line(record);
}

void Metrics::progress_line(const StepRecord& record) {
  const auto steps = static_cast<double>(record.step - last_line_step_);
  const double remaining =
      static_cast<double>(options_.steps - record.step) * share(since_line_.parts.step, steps);
  const double seconds = since_line_.parts.step;
  log_.info(
      "epoch {}/{}  step {}/{}  loss {:.4f}  accuracy {:.4f}  {:.0f} samples/s  data wait {:.1f} "
      "%, "
      "exposed communication {:.1f} %  ETA {}",
      record.epoch, options_.epochs, record.step, options_.steps, since_line_.summary.mean_loss(),
      since_line_.summary.accuracy(), per_second(since_line_.summary.targets, seconds),
      percent(since_line_.data_wait_seconds, seconds), percent(since_line_.parts.exposed, seconds),
      base::format_duration(remaining));
  since_line_ = {};
  last_line_ = std::chrono::steady_clock::now();
  last_line_step_ = record.step;
  file_.flush();
}

void Metrics::epoch(std::int64_t epoch, const EpochTimes& times) {
  const StepParts mean = times.mean();
  log_.info(
      "epoch {}/{} done  training loss {:.4f}  accuracy {:.4f}  {:.0f} samples  {:.0f} samples/s",
      epoch, options_.epochs, epoch_.mean_loss(), epoch_.accuracy(), epoch_.targets,
      per_second(epoch_.targets, mean.step));
  times_line(epoch, times);
  warn_about_data(mean);
  Json line{{"kind", "epoch"},
            {"epoch", epoch},
            {"loss", epoch_.mean_loss()},
            {"accuracy", epoch_.accuracy()},
            {"samples", epoch_.targets},
            {"seconds", mean.step},
            {"samples_per_second", per_second(epoch_.targets, mean.step)},
            {"data_wait_share", share(mean.data_wait, mean.step)},
            {"exposed_share", share(mean.exposed, mean.step)},
            {"communication_seconds", mean.communication},
            {"hidden_seconds", mean.hidden()},
            {"exposed_seconds", mean.exposed},
            {"overlap", mean.overlap()},
            {"parts", json_of(mean)},
            {"collectives", times.collectives}};
  Json& ranks = line["ranks"] = Json::array();
  for (const RankTimes& rank : times.ranks) {
    ranks.push_back(json_of(rank.parts));
    ranks.back()["communication"] = rank.parts.communication;
    ranks.back()["last"] = rank.last;
    ranks.back()["waited_for"] = rank.waited_for;
  }
  write(line);
  file_.flush();
  epoch_ = {};
}

// Means over the ranks, and whom they waited for.
void Metrics::times_line(std::int64_t epoch, const EpochTimes& times) {
  const StepParts mean = times.mean();
  std::string text =
      fmt::format("compute {:.1f} %, data wait {:.1f} %", percent(mean.compute, mean.step),
                  percent(mean.data_wait, mean.step));
  if (times.ranks.size() > 1) {
    const int slowest = times.slowest();
    const RankTimes& rank = times.ranks[static_cast<std::size_t>(slowest)];
    text += fmt::format(
        ", exposed communication {:.1f} %, {:.0f} % of the communication hidden; most waited for: "
        "rank {}, {:.1f} % of the others' time, last at {} of {} collectives",
        percent(mean.exposed, mean.step), 100 * mean.overlap(), slowest,
        100 * times.waited_share(slowest), rank.last, times.collectives);
  }
  log_.info("epoch {}/{} time  {}", epoch, options_.epochs, text);
}

void Metrics::warn_about_data(const StepParts& mean) {
  const double waiting = share(mean.data_wait, mean.step);
  if (waiting <= options_.wait_warning) return;
  log_.warning(
      "the run waits for data {:.0f} % of the time (data.wait_warning is {:.0f} %): reading is the "
      "bottleneck",
      100 * waiting, 100 * options_.wait_warning);
}

void Metrics::evaluation(std::int64_t epoch, std::int64_t step, const StepSummary& summary,
                         double seconds) {
  log_.info("epoch {}/{} test loss {:.4f}  test accuracy {:.4f}  {:.0f} samples", epoch,
            options_.epochs, summary.mean_loss(), summary.accuracy(), summary.targets);
  Json line{{"kind", "evaluation"},
            {"epoch", epoch},
            {"step", step},
            {"loss", summary.mean_loss()},
            {"accuracy", summary.accuracy()},
            {"samples", summary.targets},
            {"seconds", seconds}};
  write(line);
  file_.flush();
}

}  // namespace lockstep::train
