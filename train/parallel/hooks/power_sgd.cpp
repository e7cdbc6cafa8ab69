#include "train/parallel/hooks/power_sgd.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/random.h"
#include "train/parallel/hooks/error_feedback.h"
#include "train/parallel/hooks/low_rank.h"
#include "train/parallel/peer_memory.h"

namespace lockstep::train {
namespace {

using comm::CollectiveKind;
using comm::Range;
using comm::ReduceOp;

// Rows of one weight that lie in a bucket as a whole.
struct Matrix {
  std::string name;        // of the weight and the first of the rows
  std::int64_t begin = 0;  // in elements of the bucket
  std::int64_t rows = 0, columns = 0;
};

// How the elements of a bucket travel.
struct BucketParts {
  std::vector<Matrix> matrices;
  std::vector<comm::Slice> rest;  // what is in none of them, in elements of the bucket
  std::int64_t left = 0, right = 0, others = 0;  // elements of P, of Q, and of the rest
};

BucketParts parts_of(const comm::Bucket& bucket, const nn::ParameterArena& arena, int rank) {
  BucketParts parts;
  std::int64_t done = bucket.begin;
  const auto leave = [&](std::int64_t end) {
    if (end == done) return;
    parts.rest.push_back({done - bucket.begin, end - bucket.begin});
    parts.others += end - done;
  };
  for (const auto& entry : arena.segments()[bucket.segment].entries) {
    const Shape& shape = entry.parameter.shape();
    if (shape.rank() < 2 || shape.count() == 0) continue;
    const std::int64_t columns = shape.count() / shape[0];
    const std::int64_t first =
        (std::max(bucket.begin - entry.begin, std::int64_t{0}) + columns - 1) / columns;
    const std::int64_t rows = (std::min(bucket.end, entry.end) - entry.begin) / columns - first;
    if (bucket.end <= entry.begin || rows <= 0) continue;
    if (2 * rank * (rows + columns) > rows * columns) continue;
    const std::int64_t begin = entry.begin + first * columns;
    leave(begin);
    parts.matrices.push_back(
        {fmt::format("{}/{}", entry.name, first), begin - bucket.begin, rows, columns});
    parts.left += rank * rows;
    parts.right += rank * columns;
    done = begin + rows * columns;
  }
  leave(bucket.end);
  return parts;
}

class PowerSgdReduction final : public comm::BucketReduction {
 public:
  PowerSgdReduction(comm::Communicator& communicator, const nn::ParameterArena& arena,
                    const comm::BucketPlan& plan, const PowerSgdOptions& options)
      : communicator_(communicator),
        plan_(plan),
        options_(options),
        feedback_(arena, options.can_undo) {
    Context& context = arena.segments().front().gradients.context();
    std::size_t staging = 0, scratch = 0;
    for (const comm::Bucket& bucket : plan_.buckets) {
      parts_.push_back(parts_of(bucket, arena, options.rank));
      const BucketParts& parts = parts_.back();
      const std::size_t size = base::size_of(bucket.dtype);
      const Shape basis{parts.right};
      bases_.push_back(Tensor::empty(context, basis, bucket.dtype));
      next_bases_.push_back(Tensor::empty(context, basis, bucket.dtype));
      draw_bases(bases_.size() - 1);
      staging = std::max(
          staging,
          static_cast<std::size_t>(parts.left + parts.others + parts.right + alignment) * size);
      scratch = std::max(scratch, static_cast<std::size_t>(parts.right) * size);
    }
    staging_ = peer_memory(communicator, context, staging);
    scratch_ = Buffer(context.allocator(), scratch);
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
  std::vector<State> state() override;

  Started reduce(std::size_t bucket, Range gradients, Stream& stream) override {
    if (step_ < options_.start || parts_[bucket].matrices.empty())
      return comm::AllReduction(communicator_).reduce(bucket, gradients, stream);
    return gradients.dtype == DType::float64 ? reduce_as<double>(bucket, gradients, stream)
                                             : reduce_as<float>(bucket, gradients, stream);
  }

 private:
  // Between the two messages in the staging memory, so that both begin at a cache line.
  static constexpr std::int64_t alignment = 64;

  // Where the parts of a bucket are while it travels.
  template <class T>
  struct Place {
    T* gradients;
    T* left;    // P of all matrices, one after the other
    T* others;  // directly behind, so that they travel together
    T* right;   // Q of all matrices
  };
  template <class T>
  Place<T> place(std::size_t bucket, Range gradients) const {
    const BucketParts& parts = parts_[bucket];
    T* const left = static_cast<T*>(staging_.data());
    const std::int64_t first = parts.left + parts.others;
    return {static_cast<T*>(gradients.data), left, left + parts.left,
            left + (first + alignment - 1) / alignment * alignment};
  }

  template <class T>
  Started reduce_as(std::size_t bucket, Range gradients, Stream& stream) {
    const BucketParts& parts = parts_[bucket];
    const Place<T> at = place<T>(bucket, gradients);
    const Range first{at.left, parts.left + parts.others, gradients.dtype};
    const Range second{at.right, parts.right, gradients.dtype};
    const auto tag = static_cast<comm::Tag>(bucket);
    std::vector<comm::Work> works;
    stream.enqueue([this, bucket, at] { project(bucket, at); });
    works.push_back(communicator_.all_reduce(first, ReduceOp::sum, stream, tag));
    stream.enqueue([this, bucket, at] { factorize(bucket, at); });
    works.push_back(communicator_.all_reduce(second, ReduceOp::sum, stream, tag));
    stream.enqueue([this, bucket, at] { restore(bucket, at); });
    const std::size_t bytes = first.bytes() + second.bytes();
    return {comm::join(std::move(works), stream), bytes,
            comm::bytes_sent(CollectiveKind::all_reduce, bytes, communicator_.size())};
  }

  // Calls f(matrix as a view of `in` (the bucket's elements), its P, its Q).
  template <class T, class F>
  void for_each_matrix(std::size_t bucket, T* in, T* left, T* right, F&& f) const {
    for (const Matrix& matrix : parts_[bucket].matrices) {
      f(MatrixView<T>{in + matrix.begin, matrix.rows, matrix.columns}, left, right);
      left += options_.rank * matrix.rows;
      right += options_.rank * matrix.columns;
    }
  }

  // Adds the residual to the gradients, in place, and projects their rows onto the last basis.
  template <class T>
  void project(std::size_t bucket, const Place<T>& at) const {
    const comm::Bucket& whole = plan_.buckets[bucket];
    const T* const residual = feedback_.previous<T>(whole.segment, whole.begin);
    const T factor = static_cast<T>(feedback_.factor());
    T* const basis = static_cast<T*>(scratch_.data());
    std::copy_n(bases_[bucket].data<T>(), parts_[bucket].right, basis);
    for_each_matrix(
        bucket, at.gradients, at.left, basis, [&](const MatrixView<T>& matrix, T* left, T* right) {
          const std::int64_t begin = matrix.data - at.gradients;
          add_multiple(factor, residual + begin, matrix.rows * matrix.columns, matrix.data);
          for (int j = 0; j < options_.rank; ++j) {
            if (orthonormalize(right, matrix.columns, j)) continue;
            draw(bucket, begin, matrix.columns, j, right);
            orthonormalize(right, matrix.columns, j);
          }
          multiply(matrix, right, options_.rank, left);
        });
    T* to = at.others;
    for (const comm::Slice& slice : parts_[bucket].rest)
      to = std::copy_n(at.gradients + slice.begin, slice.count(), to);
  }

  // From the summed projections to an orthonormal P, this rank's Q and what both leave out.
  template <class T>
  void factorize(std::size_t bucket, const Place<T>& at) const {
    const comm::Bucket& whole = plan_.buckets[bucket];
    T* const residual = feedback_.next<T>(whole.segment, whole.begin);
    for_each_matrix(bucket, at.gradients, at.left, at.right,
                    [&](const MatrixView<T>& matrix, T* left, T* right) {
                      for (int j = 0; j < options_.rank; ++j) orthonormalize(left, matrix.rows, j);
                      multiply_transposed(matrix, left, options_.rank, right);
                      const MatrixView<T> rest{residual + (matrix.data - at.gradients), matrix.rows,
                                               matrix.columns};
                      std::copy_n(matrix.data, matrix.rows * matrix.columns, rest.data);
                      add_product(T(-1), left, right, options_.rank, rest);
                    });
  }

  // The result, and the next basis.
  template <class T>
  void restore(std::size_t bucket, const Place<T>& at) {
    for_each_matrix(bucket, at.gradients, at.left, at.right,
                    [&](const MatrixView<T>& matrix, T* left, T* right) {
                      std::fill_n(matrix.data, matrix.rows * matrix.columns, T(0));
                      add_product(T(1), left, right, options_.rank, matrix);
                    });
    const T* from = at.others;
    for (const comm::Slice& slice : parts_[bucket].rest) {
      std::copy_n(from, slice.count(), at.gradients + slice.begin);
      from += slice.count();
    }
    std::copy_n(at.right, parts_[bucket].right, next_bases_[bucket].data<T>());
  }

  // Vector j of a basis, by chance: the same on every rank.
  template <class T>
  void draw(std::size_t bucket, std::int64_t begin, std::int64_t columns, int j, T* basis) const {
    const base::RandomStream stream(options_.seed, fmt::format("power_sgd:{}:{}", bucket, begin));
    for (std::int64_t i = j * columns; i < (j + 1) * columns; ++i)
      basis[i] = static_cast<T>(stream.normal(static_cast<std::uint64_t>(i)));
  }
  void draw_bases(std::size_t bucket) const {
    const auto draw_as = [&](auto* basis) {
      for (const Matrix& matrix : parts_[bucket].matrices) {
        for (int j = 0; j < options_.rank; ++j)
          draw(bucket, matrix.begin, matrix.columns, j, basis);
        basis += options_.rank * matrix.columns;
      }
    };
    if (plan_.buckets[bucket].dtype == DType::float64)
      draw_as(bases_[bucket].data<double>());
    else
      draw_as(bases_[bucket].data<float>());
  }

  comm::Communicator& communicator_;
  comm::BucketPlan plan_;
  PowerSgdOptions options_;
  ErrorFeedback feedback_;
  std::vector<BucketParts> parts_;  // of each bucket
  std::vector<Tensor> bases_;       // Q of the step before, of all matrices of a bucket
  std::vector<Tensor> next_bases_;
  Buffer staging_;  // one bucket at a time
  Buffer scratch_;  // orthonormal bases of one bucket
  std::int64_t step_ = 0;
};

std::vector<comm::BucketReduction::State> PowerSgdReduction::state() {
  std::vector<State> all;
  feedback_.add_state(all);
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    std::int64_t begin = 0;
    for (const Matrix& matrix : parts_[b].matrices) {
      const std::int64_t count = options_.rank * matrix.columns;
      const Tensor basis = bases_[b].slice(0, begin, begin + count);
      all.push_back(
          {.name = "basis/" + matrix.name, .values = {basis.data(), count, basis.dtype()}});
      begin += count;
    }
  }
  return all;
}

}  // namespace

std::unique_ptr<comm::BucketReduction> make_power_sgd_hook(comm::Communicator& communicator,
                                                           const nn::ParameterArena& arena,
                                                           const comm::BucketPlan& plan,
                                                           const PowerSgdOptions& options) {
  return std::make_unique<PowerSgdReduction>(communicator, arena, plan, options);
}

}  // namespace lockstep::train
