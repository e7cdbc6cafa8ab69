// What power_sgd has in common on both kinds of device: the order of its work, where everything is,
// and what stays from step to step. Private to this folder.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "framework/base/random.h"
#include "framework/kernels/dispatch.h"
#include "train/parallel/hooks/error_feedback.h"
#include "train/parallel/hooks/power_sgd.h"
#include "train/parallel/hooks/power_sgd_parts.h"
#include "train/parallel/peer_memory.h"

namespace lockstep::train {

// A bucket on its way. Of a P [rows, rank] or Q [columns, rank] each column is contiguous.
template <class T>
struct PowerSgdBucket {
  const std::vector<Matrix>* matrices;
  int rank;         // columns of P and Q
  T* gradients;     // of the whole bucket
  const T* before;  // the residual, in the same layout
  T factor;         // by which it is multiplied
  T* rest;          // the next residual; may be `before`
  const T* drawn;   // what takes the place of a vector of the basis that depends on others
  T* basis;         // Q of the step before, one matrix after the other
  T* left;          // P
  T* right;         // Q
};

// Arithmetic is made of a context and enqueues on a stream, for each matrix M of a bucket,
// - project(PowerSgdBucket<T>, stream): M += factor * residual; orthonormalises the basis, drawing
//   anew what depends; P = M basis;
// - factorize(...): orthonormalises P; Q = M^T P; the next residual = M - P Q^T;
// - restore(...): M = P Q^T, the same bits on all ranks for the same P and Q.
template <class Arithmetic>
class PowerSgdReduction final : public comm::BucketReduction {
 public:
  PowerSgdReduction(comm::Communicator& communicator, const nn::ParameterArena& arena,
                    const comm::BucketPlan& plan, const PowerSgdOptions& options)
      : communicator_(communicator),
        context_(arena.segments().front().gradients.context()),
        plan_(plan),
        options_(options),
        feedback_(arena, options.can_undo),
        arithmetic_(context_) {
    std::size_t staging = 0, scratch = 0;
    for (const comm::Bucket& bucket : plan_.buckets) {
      parts_.push_back(parts_of(bucket, arena, options.rank));
      const BucketParts& parts = parts_.back();
      const std::size_t size = base::size_of(bucket.dtype);
      for (auto* const bases : {&drawn_, &bases_, &next_bases_})
        bases->push_back(drawn_basis(parts_.size() - 1));
      staging = std::max(
          staging,
          static_cast<std::size_t>(parts.left + parts.others + parts.right + alignment) * size);
      scratch = std::max(scratch, static_cast<std::size_t>(parts.right) * size);
    }
    staging_ = peer_memory(communicator, context_, staging);
    scratch_ = Buffer(context_.allocator(), scratch);
  }

  std::string_view name() const override { return "power_sgd"; }

  void begin(const Step& step) override {
    step_ = step.number;
    feedback_.begin(step);
  }
  void end(bool used) override {
    if (step_ < options_.start) return;  // nothing was left behind
    feedback_.end(used);
    if (used) std::swap(bases_, next_bases_);
  }

  std::vector<State> state() override {
    std::vector<State> all;
    feedback_.add_state(all);
    for (std::size_t b = 0; b < parts_.size(); ++b)
      for (const Matrix& matrix : parts_[b].matrices) {
        const std::int64_t count = options_.rank * matrix.columns;
        const Tensor basis = bases_[b].slice(0, matrix.right, matrix.right + count);
        all.push_back(
            {.name = "basis/" + matrix.name, .values = {basis.data(), count, basis.dtype()}});
      }
    return all;
  }

  Started reduce(std::size_t bucket, comm::Range gradients, Stream& stream) override {
    if (step_ < options_.start || parts_[bucket].matrices.empty())
      return comm::AllReduction(communicator_).reduce(bucket, gradients, stream);
    return kernels::visit_float(name(), gradients.dtype, [&]<class T>(base::TypeTag<T>) {
      return reduce_as(bucket, static_cast<T*>(gradients.data), stream);
    });
  }

 private:
  // Between the two messages in the staging memory, so that both begin at a cache line.
  static constexpr std::int64_t alignment = 64;

  template <class T>
  PowerSgdBucket<T> place(std::size_t index, T* gradients) const {
    const comm::Bucket& whole = plan_.buckets[index];
    const BucketParts& parts = parts_[index];
    T* const left = static_cast<T*>(staging_.data());
    const std::int64_t first = parts.left + parts.others;
    return {.matrices = &parts.matrices,
            .rank = options_.rank,
            .gradients = gradients,
            .before = feedback_.previous<T>(whole.segment, whole.begin),
            .factor = static_cast<T>(feedback_.factor()),
            .rest = feedback_.next<T>(whole.segment, whole.begin),
            .drawn = drawn_[index].data<T>(),
            .basis = static_cast<T*>(scratch_.data()),
            .left = left,
            .right = left + (first + alignment - 1) / alignment * alignment};
  }

  template <class T>
  Started reduce_as(std::size_t index, T* gradients, Stream& stream) {
    const BucketParts& parts = parts_[index];
    const PowerSgdBucket<T> bucket = place(index, gradients);
    // P of all matrices and what is in none travel together.
    const comm::Range first{bucket.left, parts.left + parts.others, base::dtype_of<T>()};
    const comm::Range second{bucket.right, parts.right, base::dtype_of<T>()};
    const auto tag = static_cast<comm::Tag>(index);
    std::vector<comm::Work> works;
    copy(bases_[index].data<T>(), parts.right, bucket.basis, stream);
    arithmetic_.project(bucket, stream);
    for_each_other(
        parts, gradients, bucket.left + parts.left,
        [&](T* own, T* travels, std::int64_t count) { copy(own, count, travels, stream); });
    works.push_back(communicator_.all_reduce(first, comm::ReduceOp::sum, stream, tag));
    arithmetic_.factorize(bucket, stream);
    works.push_back(communicator_.all_reduce(second, comm::ReduceOp::sum, stream, tag));
    arithmetic_.restore(bucket, stream);
    for_each_other(
        parts, gradients, bucket.left + parts.left,
        [&](T* own, T* travels, std::int64_t count) { copy(travels, count, own, stream); });
    copy(bucket.right, parts.right, next_bases_[index].data<T>(), stream);
    const std::size_t bytes = first.bytes() + second.bytes();
    return {comm::join(std::move(works), stream), bytes,
            comm::bytes_sent(comm::CollectiveKind::all_reduce, bytes, communicator_.size())};
  }

  template <class T>
  void copy(const T* from, std::int64_t count, T* to, Stream& stream) const {
    context_.copy(to, from, static_cast<std::size_t>(count) * sizeof(T), stream);
  }

  // f(a slice that is in no matrix, its place among what travels, how many elements)
  template <class T, class F>
  static void for_each_other(const BucketParts& parts, T* gradients, T* others, F&& f) {
    for (const comm::Slice& slice : parts.rest) {
      f(gradients + slice.begin, others, slice.count());
      others += slice.count();
    }
  }

  // The first basis of a bucket, by chance: the same on every rank.
  Tensor drawn_basis(std::size_t index) const {
    const BucketParts& parts = parts_[index];
    return kernels::visit_float(name(), plan_.buckets[index].dtype, [&]<class T>(base::TypeTag<T>) {
      std::vector<T> basis;
      for (const Matrix& matrix : parts.matrices) {
        const base::RandomStream stream(options_.seed,
                                        fmt::format("power_sgd:{}:{}", index, matrix.begin));
        for (std::int64_t i = 0; i < options_.rank * matrix.columns; ++i)
          basis.push_back(static_cast<T>(stream.normal(static_cast<std::uint64_t>(i))));
      }
      return Tensor::from<T>(context_, basis, Shape{parts.right});
    });
  }

  comm::Communicator& communicator_;
  Context& context_;
  comm::BucketPlan plan_;
  PowerSgdOptions options_;
  ErrorFeedback feedback_;
  Arithmetic arithmetic_;
  std::vector<BucketParts> parts_;  // of each bucket
  // Q of all matrices of each bucket: the first ones, those of the step before, and the next.
  std::vector<Tensor> drawn_, bases_, next_bases_;
  Buffer staging_;  // P, the rest and Q of one bucket at a time
  Buffer scratch_;  // orthonormal bases of one bucket
  std::int64_t step_ = 0;
};

}  // namespace lockstep::train
