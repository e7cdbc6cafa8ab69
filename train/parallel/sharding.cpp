#include "train/parallel/sharding.h"

#include <algorithm>
#include <utility>

#include "framework/kernels/kernels.h"

namespace lockstep::train {
namespace {

comm::Range range_of(const Tensor& flat, const comm::Bucket& bucket) {
  const Tensor part = flat.slice(0, bucket.begin, bucket.end);
  return {part.data(), part.count(), part.dtype()};
}

void copy(const Tensor& from, const Tensor& to) {
  kernels::kernels_for(from.context()).copy(from, to);
}

// Calls body(range, at) for the ranges of an optimizer's shard of a segment; `at` is where the
// range's state begins.
template <class Body>
void for_each_range(const optim::Optimizer& optimizer, std::size_t segment, Body&& body) {
  std::int64_t at = 0;
  for (const optim::ElementRange& range : optimizer.shard()[segment]) {
    body(range, at);
    at += range.count();
  }
}

}  // namespace

optim::Shard shard_of(const comm::BucketPlan& plan, std::size_t segments, int rank, int size) {
  optim::Shard shard(segments);
  for (const comm::Bucket& bucket : plan.buckets) {
    const comm::Slice slice = comm::slice_of(bucket.count(), rank, size);
    shard[bucket.segment].push_back({bucket.begin + slice.begin, bucket.begin + slice.end});
  }
  return shard;
}

ParameterGather::ParameterGather(nn::ParameterArena& arena, const comm::BucketPlan& plan,
                                 comm::Communicator& communicator, Stream& compute,
                                 Stream& communication, Timeline& timeline)
    : arena_(arena),
      plan_(plan),
      communicator_(communicator),
      compute_(compute),
      communication_(communication),
      timeline_(timeline),
      works_(plan.buckets.size()) {
  const auto& buckets = plan.buckets;
  for (std::size_t s = 0; s < arena.segments().size(); ++s)
    for (const auto& entry : arena.segments()[s].entries) {
      if (entry.begin == entry.end) continue;
      const auto holds = [&](std::int64_t element) {
        const auto bucket = std::find_if(buckets.begin(), buckets.end(), [&](const auto& b) {
          return b.segment == s && element >= b.begin && element < b.end;
        });
        return static_cast<std::size_t>(bucket - buckets.begin());
      };
      leaves_.push_back({entry.parameter, holds(entry.begin), holds(entry.end - 1)});
    }
}

ParameterGather::~ParameterGather() {
  for (Leaf& leaf : leaves_) leaf.parameter.set_arrival(nullptr);
}

comm::Work ParameterGather::start(std::size_t bucket) {
  // Without overlap it travels here.
  const Timeline::Span span(timeline_, Activity::bucket_wait, static_cast<std::uint32_t>(bucket));
  const comm::Bucket& range = plan_.buckets[bucket];
  communication_.wait(compute_.record());
  return communicator_.all_gather(range_of(arena_.segments()[range.segment].parameters, range),
                                  communication_, static_cast<comm::Tag>(bucket));
}

std::vector<comm::Work> ParameterGather::expect(std::vector<comm::Work> gathers) {
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    leaves_[i].parameter.set_arrival(
        [this, i] { wait(leaves_[i].first_bucket, leaves_[i].last_bucket); });
  return std::exchange(works_, std::move(gathers));
}

void ParameterGather::finish() {
  if (!works_.empty()) wait(0, works_.size() - 1);
}

void ParameterGather::wait(std::size_t first_bucket, std::size_t last_bucket) {
  for (std::size_t b = first_bucket; b <= last_bucket; ++b) {
    if (works_[b].done()) {
      works_[b].wait_on(compute_);  // it may have failed
      continue;
    }
    const Timeline::Span span(timeline_, Activity::bucket_wait, static_cast<std::uint32_t>(b));
    works_[b].wait_on(compute_);
  }
}

OptimizerState make_whole_state(const nn::ParameterArena& arena,
                                const optim::Optimizer& optimizer) {
  OptimizerState whole;
  for (const auto& state : optimizer.state()) {
    whole.push_back({state.name, {}});
    for (const auto& segment : arena.segments()) {
      const Tensor& like = segment.parameters;
      whole.back().segments.push_back(Tensor::empty(like.context(), like.shape(), like.dtype()));
    }
  }
  return whole;
}

OptimizerState gather_state(const nn::ParameterArena& arena, const optim::Optimizer& optimizer,
                            const comm::BucketPlan& plan, comm::Communicator& communicator,
                            Stream& stream) {
  const bool collects = communicator.rank() == 0;
  OptimizerState whole = collects ? make_whole_state(arena, optimizer) : OptimizerState();
  for (std::size_t i = 0; i < optimizer.state().size(); ++i) {
    std::vector<std::int64_t> at(
        arena.segments().size());  // of the next slice in this rank's state
    for (const comm::Bucket& bucket : plan.buckets) {
      const Tensor& own = optimizer.state()[i].segments[bucket.segment];
      const Tensor staging = Tensor::empty(own.context(), Shape{bucket.count()}, own.dtype());
      const comm::Slice slice =
          comm::slice_of(bucket.count(), communicator.rank(), communicator.size());
      std::int64_t& begin = at[bucket.segment];
      copy(own.slice(0, begin, begin + slice.count()), staging.slice(0, slice.begin, slice.end));
      begin += slice.count();
      stream.wait(own.context().compute_stream().record());
      communicator.all_gather({staging.data(), staging.count(), staging.dtype()}, stream).wait();
      if (collects)
        copy(staging, whole[i].segments[bucket.segment].slice(0, bucket.begin, bucket.end));
    }
  }
  return whole;
}

void take_state(const OptimizerState& whole, const optim::Optimizer& optimizer) {
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (std::size_t s = 0; s < whole[i].segments.size(); ++s)
      for_each_range(optimizer, s, [&](const optim::ElementRange& range, std::int64_t at) {
        copy(whole[i].segments[s].slice(0, range.begin, range.end),
             optimizer.state()[i].segments[s].slice(0, at, at + range.count()));
      });
}

}  // namespace lockstep::train
