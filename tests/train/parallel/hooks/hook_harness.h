// One hook on the gradients of a small model, without a training around it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "framework/nn/linear.h"
#include "tests/train/parallel/thread_ranks.h"
#include "train/parallel/hooks/hooks.h"

namespace lockstep::train {

// A weight [rows, columns] and a bias [rows] on every rank, in buckets of `bucket_bytes`.
class HookHarness {
 public:
  HookHarness(Rank rank, const ReductionFactory& make, std::int64_t rows, std::int64_t columns,
              std::size_t bucket_bytes = std::size_t{1} << 20, DType dtype = DType::float32)
      : rank_(rank),
        linear_(rank.context, columns, rows, {.dtype = dtype}),
        arena_(rank.context, linear_, {0, 1}),
        stream_(rank.context.make_stream("communication")) {
    comm::SegmentLayout layout{dtype, arena_.segments()[0].gradients.count(), {}};
    for (const auto& entry : arena_.segments()[0].entries)
      layout.gradients.push_back({entry.begin, entry.end});
    plan_ = comm::plan_buckets({layout}, {bucket_bytes, bucket_bytes});
    hook_ = make(rank.communicator, arena_, plan_);
  }

  // Reduces what weight(row-major index) and bias(index) give on this rank; the result is in
  // gradients().
  template <class Values>
  void step(const Values& values, std::int64_t number = 1, double loss_scale = 1,
            bool used = true) {
    auto& segment = arena_.segments()[0];
    std::vector<double> gradients(static_cast<std::size_t>(segment.gradients.count()));
    for (const auto& entry : segment.entries)
      for (std::int64_t i = entry.begin; i < entry.end; ++i)
        gradients[static_cast<std::size_t>(i)] = values(i - entry.begin);
    set(gradients);
    hook_->begin({.number = number, .loss_scale = loss_scale});
    std::vector<comm::Work> works;
    bytes = sent = 0;
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      const comm::Bucket& bucket = plan_.buckets[b];
      const Tensor slice = segment.gradients.slice(0, bucket.begin, bucket.end);
      const auto started = hook_->reduce(b, {slice.data(), slice.count(), slice.dtype()}, *stream_);
      works.push_back(started.work);
      bytes += started.bytes;
      sent += started.sent;
    }
    for (const comm::Work& work : works) work.wait();
    hook_->end(used);
  }

  std::vector<double> weight() const { return values_of(0); }
  std::vector<double> bias() const { return values_of(1); }
  comm::BucketReduction& hook() { return *hook_; }
  // What the hook keeps under a name.
  template <class T>
  std::vector<T> state(const std::string& name) {
    for (const auto& state : hook_->state()) {
      if (state.name != name) continue;
      std::vector<T> values(static_cast<std::size_t>(state.values.count));
      rank_.context.download(values.data(), state.values.data, state.values.bytes());
      return values;
    }
    ADD_FAILURE() << "no state " << name;
    return {};
  }
  const comm::BucketPlan& plan() const { return plan_; }
  std::uint64_t bytes = 0, sent = 0;  // of the last step

 private:
  void set(const std::vector<double>& values) {
    const Tensor& flat = arena_.segments()[0].gradients;
    if (flat.dtype() == DType::float64) {
      rank_.context.upload(flat.data(), values.data(), flat.bytes());
    } else {
      const std::vector<float> floats(values.begin(), values.end());
      rank_.context.upload(flat.data(), floats.data(), flat.bytes());
    }
    stream_->wait(rank_.context.compute_stream().record());
  }
  std::vector<double> values_of(std::size_t index) const {
    const auto& segment = arena_.segments()[0];
    const auto& entry = segment.entries[index];
    const Tensor values = segment.gradients.slice(0, entry.begin, entry.end);
    if (segment.dtype == DType::float64) return values.to_vector<double>();
    const std::vector<float> floats = values.to_vector<float>();
    return {floats.begin(), floats.end()};
  }

  Rank rank_;
  nn::Linear linear_;
  nn::ParameterArena arena_;
  std::unique_ptr<Stream> stream_;
  comm::BucketPlan plan_;
  std::unique_ptr<comm::BucketReduction> hook_;
};

}  // namespace lockstep::train
