#include "comm/bucketing/bucket_reduction.h"

#include <algorithm>

namespace lockstep::comm {

namespace {

class JoinedWork final : public Work::State {
 public:
  JoinedWork(std::vector<Work> parts, Event end) : parts_(std::move(parts)), end_(std::move(end)) {}

  Event event() const override { return end_; }

  void throw_if_failed() const override {
    for (const Work& part : parts_) part.wait();  // done, as they were enqueued before the end
  }

  Work::Times times() const override {
    if (parts_.empty()) return {};
    Work::Times all = parts_.front().times();
    for (const Work& part : parts_) {
      const Work::Times times = part.times();
      all = {std::min(all.start, times.start), std::max(all.end, times.end)};
    }
    return all;
  }

  // For joins that were captured: a launch has one end for all of it. An empty one is itself.
  std::shared_ptr<const State> launched() const override {
    if (parts_.empty()) return nullptr;
    std::vector<Work> parts;
    for (const Work& part : parts_) parts.push_back(part.launched());
    Event end = parts.back().event();
    return std::make_shared<JoinedWork>(std::move(parts), std::move(end));
  }

 private:
  std::vector<Work> parts_;
  Event end_;
};

}  // namespace

BucketReduction::Started AllReduction::reduce(std::size_t bucket, Range gradients, Stream& stream) {
  return {communicator_.all_reduce(gradients, ReduceOp::sum, stream, static_cast<Tag>(bucket)),
          gradients.bytes(),
          bytes_sent(CollectiveKind::all_reduce, gradients.bytes(), communicator_.size())};
}

std::uint64_t bytes_sent(CollectiveKind kind, std::size_t bytes, int size) {
  const auto ranks = static_cast<std::uint64_t>(size);
  const std::uint64_t rounds = kind == CollectiveKind::all_reduce ? 2 : 1;
  return rounds * (ranks - 1) * bytes / ranks;
}

BucketReduction::Started ScatterReduction::reduce(std::size_t bucket, Range gradients,
                                                  Stream& stream) {
  return {communicator_.reduce_scatter(gradients, ReduceOp::sum, stream, static_cast<Tag>(bucket)),
          gradients.bytes(),
          bytes_sent(CollectiveKind::reduce_scatter, gradients.bytes(), communicator_.size())};
}

Work join(std::vector<Work> collectives, Stream& stream) {
  return Work(std::make_shared<JoinedWork>(std::move(collectives), stream.record()));
}

}  // namespace lockstep::comm
