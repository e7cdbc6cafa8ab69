#include "train/timeline/trace_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::train {
namespace {

using Json = nlohmann::ordered_json;
using Event = Timeline::Event;

enum Track : int { compute_track = 0, communication_track = 1 };

bool travels(const Event& event) {
  return event.kind == Event::Kind::bucket || event.kind == Event::Kind::parameters ||
         event.kind == Event::Kind::summary;
}

std::string title(const Event& event) {
  switch (event.kind) {
    case Event::Kind::step:
      return fmt::format("step {}", event.step);
    case Event::Kind::activity:
      return event.bucket == Timeline::no_bucket
                 ? std::string(name_of(event.activity))
                 : fmt::format("{} {}", name_of(event.activity), event.bucket);
    case Event::Kind::part:
      if (!event.part.empty()) return std::string(event.part);
      return event.operation.empty() ? "model" : std::string(event.operation);
    case Event::Kind::ready:
      return fmt::format("bucket {} ready", event.bucket);
    case Event::Kind::launched:
      return fmt::format("bucket {} launched", event.bucket);
    case Event::Kind::bucket:
      return fmt::format("bucket {}", event.bucket);
    case Event::Kind::parameters:
      return fmt::format("parameters {}", event.bucket);
    case Event::Kind::summary:
      return "summary";
  }
  __builtin_unreachable();
}

std::string category(const Event& event) {
  switch (event.kind) {
    case Event::Kind::step:
      return "step";
    case Event::Kind::activity:
      return "activity";
    case Event::Kind::part:
      return fmt::format("{} layer", name_of(event.activity));
    case Event::Kind::ready:
    case Event::Kind::launched:
      return "bucket";
    case Event::Kind::bucket:
    case Event::Kind::parameters:
    case Event::Kind::summary:
      return "communication";
  }
  __builtin_unreachable();
}

double microseconds(device::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

Json json_of(const Event& event, int rank, const comm::BucketPlan& plan,
             Timeline::TimePoint origin) {
  const bool is_instant = event.kind == Event::Kind::ready || event.kind == Event::Kind::launched;
  Json json{{"name", title(event)},
            {"cat", category(event)},
            {"ph", is_instant ? "i" : "X"},
            {"ts", microseconds(event.begin - origin)},
            {"pid", rank},
            {"tid", travels(event) ? communication_track : compute_track}};
  if (is_instant)
    json["s"] = "t";  // drawn on its own thread only
  else
    json["dur"] = microseconds(event.end - event.begin);
  json["args"]["step"] = event.step;
  if (!event.operation.empty()) json["args"]["operation"] = event.operation;
  if (event.bucket != Timeline::no_bucket) {
    json["args"]["bucket"] = event.bucket;
    json["args"]["bytes"] = plan.buckets[event.bucket].bytes();
  }
  return json;
}

Json metadata(const char* name, int rank, int track, const Json& args) {
  return {{"name", name}, {"ph", "M"}, {"pid", rank}, {"tid", track}, {"args", args}};
}

}  // namespace

std::string trace_events(const Timeline& timeline, int rank, const comm::BucketPlan& plan,
                         Timeline::TimePoint origin) {
  std::string text;
  const auto add = [&](const Json& json) {
    if (!text.empty()) text += ",\n";
    text += json.dump();
  };
  add(metadata("process_name", rank, compute_track, {{"name", fmt::format("rank {}", rank)}}));
  add(metadata("process_sort_index", rank, compute_track, {{"sort_index", rank}}));
  add(metadata("thread_name", rank, compute_track, {{"name", "compute"}}));
  add(metadata("thread_name", rank, communication_track, {{"name", "communication"}}));
  for (const Event& event : timeline.events()) add(json_of(event, rank, plan, origin));
  return text;
}

void write_trace(const std::string& path, std::span<const std::string> events_by_rank) {
  std::ofstream file(path);
  file << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (std::size_t rank = 0; rank < events_by_rank.size(); ++rank)
    file << (rank == 0 ? "" : ",\n") << events_by_rank[rank];
  file << "\n]}\n" << std::flush;
  if (!file)
    throw CheckpointError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

}  // namespace lockstep::train
