// What a run tells about itself: one progress line for people, one JSON object a line for programs.
//
// Rank 0 has one; the figures are those of all ranks together.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "framework/base/log.h"
#include "train/parallel/consistency.h"
#include "train/parallel/step_summary.h"
#include "train/timeline/epoch_times.h"

namespace lockstep::train {

// One update, as all ranks together saw it.
struct StepRecord {
  std::int64_t epoch = 0;  // from 1
  std::int64_t step = 0;   // updates so far, this one included
  StepSummary summary;
  double lr = 0;
  StepParts parts;                  // of rank 0
  double data_wait_seconds = 0;     // mean over the ranks
  std::uint64_t reduced_bytes = 0;  // of the buckets, as each rank gives them
  std::uint64_t sent_bytes = 0;     // that left each rank for it, at least
};

// What a run is made of, written once.
struct StartRecord {
  int workers = 0;
  std::string backend;
  std::string algorithm;
  double start_up_seconds = 0;  // from the start of the program until the first step may begin
  std::int64_t parameters = 0;
  std::size_t buckets = 0;
};

struct MetricsOptions {
  std::string file;  // JSON lines, appended
  std::int64_t epochs = 0;
  std::int64_t steps = 0;      // updates of the whole run
  std::int64_t log_every = 0;  // steps between progress lines; 0: about one a second
  double wait_warning = 0.2;   // share of time waiting for data above which a line says so
};

class Metrics {
 public:
  Metrics(const MetricsOptions& options,
          const Log& log);  // StartupError when the file cannot be written

  void start(const StartRecord& record);
  void step(const StepRecord& record);

  // Closes an epoch: its lines carry the sums over all its steps.
  void epoch(std::int64_t epoch, const EpochTimes& times);
  void evaluation(std::int64_t epoch, std::int64_t step, const StepSummary& summary,
                  double seconds);
  // The digest of the weights after a step, equal on all ranks.
  void weights(std::int64_t step, const std::string& digest);
  // `policy`: what was done about it, consistency.on_divergence.
  void divergence(const Divergence& divergence, const std::string& policy);
  void flush() { file_.flush(); }

 private:
  void write(const nlohmann::ordered_json& record);
  struct Totals {
    StepSummary summary;
    StepParts parts;
    double data_wait_seconds = 0;
    void add(const StepRecord& record);
  };
  void progress_line(const StepRecord& record);
  void times_line(std::int64_t epoch, const EpochTimes& times);
  void warn_about_data(const StepParts& mean);

  MetricsOptions options_;
  const Log& log_;
  std::ofstream file_;
  StepSummary epoch_;
  Totals since_line_;
  std::chrono::steady_clock::time_point last_line_;
  std::int64_t last_line_step_ = 0;
};

}  // namespace lockstep::train
