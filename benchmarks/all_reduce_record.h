// The steps that really ran in one all-reduce, as JSON: docs/ring_all_reduce.md draws them.
#pragma once

#include "benchmarks/all_reduce_rank.h"
#include "comm/schedule/recorder.h"

namespace lockstep::benchmarks {

class Recording final : public comm::schedule::Recorder {
 public:
  void record(const comm::schedule::ExecutedStep& step) override { steps_.push_back(step); }
  void forget() { steps_.clear(); }

  // An object for each step of `rank`; times in nanoseconds on the clock that all ranks share.
  std::string json(int rank) const {
    std::vector<std::string> objects;
    for (const auto& executed : steps_) {
      const comm::schedule::Step& step = executed.step;
      objects.push_back(fmt::format(
          R"({{"rank": {}, "action": "{}", "slice": {}, "slices": {}, "from": {}, "to": {}, )"
          R"("first": {}, "count": {}, "start": {}, "end": {}}})",
          rank, comm::schedule::name_of(step.action), step.slice, step.slices, step.from, step.to,
          executed.first, executed.count, executed.start.time_since_epoch().count(),
          executed.end.time_since_epoch().count()));
    }
    return fmt::format("{}", fmt::join(objects, ",\n  "));
  }

 private:
  std::vector<comm::schedule::ExecutedStep> steps_;
};

inline void record(const Arguments& arguments, train::Worker& worker) {
  Recording recording;
  const std::size_t bytes = base::parse_bytes(arguments.maximum);
  RankBench bench(arguments,
                  make_communicator(arguments, "record/", worker, Device{},
                                    {.algorithm = arguments.algorithm, .recorder = &recording}),
                  nullptr, bytes);
  bench.clear();
  for (int i = 0; i < 3; ++i) {  // the first ones warm up
    bench.barrier();
    recording.forget();
    bench.reduce();
  }
  const auto key = [](int rank) { return fmt::format("record/steps/{}", rank); };
  worker.store().set(key(worker.rank()), recording.json(worker.rank()));
  bench.barrier();
  if (worker.rank() != 0) return;
  std::vector<std::string> parts;
  for (int r = 0; r < worker.world_size(); ++r) {
    parts.push_back(worker.store().get(key(r), std::chrono::seconds(10)));
    if (parts.back().empty())
      throw ConfigError("algorithm " + arguments.algorithm + " has no steps to record");
  }
  write_file(arguments.record,
             fmt::format("{{\"algorithm\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"type\": \"{}\", "
                         "\"steps\": [\n  {}\n]}}\n",
                         arguments.algorithm, worker.world_size(), bytes, arguments.type,
                         fmt::join(parts, ",\n  ")));
}

}  // namespace lockstep::benchmarks
