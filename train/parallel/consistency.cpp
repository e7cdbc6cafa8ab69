#include "train/parallel/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "framework/base/hash.h"
#include "framework/kernels/kernels.h"
#include "train/parallel/gather.h"
#include "train/parallel/host_values.h"
#include "train/parallel/host_view.h"
#include "train/parallel/rank_votes.h"
#include "train/parallel/tensor_range.h"

namespace lockstep::train {
namespace {

struct Difference {
  std::int64_t elements = 0;
  double largest = 0;
};

template <class T>
double as_double(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<double>(static_cast<float>(value));
}

Difference difference(const Tensor& own, const Tensor& reference) {
  Difference found;
  base::visit_dtype(own.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const HostView own_view(own), reference_view(reference);
    const auto a = own_view.values<T>(), b = reference_view.values<T>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t at = i * sizeof(T);
      if (std::memcmp(&own_view.bytes()[at], &reference_view.bytes()[at], sizeof(T)) == 0) continue;
      ++found.elements;
      double distance = std::abs(as_double(a[i]) - as_double(b[i]));
      if (!std::isfinite(distance)) distance = std::numeric_limits<double>::infinity();
      found.largest = std::max(found.largest, distance);
    }
  });
  return found;
}

std::int64_t count_nonfinite(const Tensor& tensor) {
  const HostView view(tensor);
  return base::visit_dtype(tensor.dtype(), [&](auto tag) -> std::int64_t {
    const auto values = view.values<typename decltype(tag)::type>();
    return std::count_if(values.begin(), values.end(),
                         [](auto value) { return !std::isfinite(as_double(value)); });
  });
}

}  // namespace

std::vector<ReplicatedTensor> replicated_tensors(Replica& replica) {
  std::vector<ReplicatedTensor> tensors;
  const auto& segments = replica.arena().segments();
  for (const auto& segment : segments)
    for (const auto& entry : segment.entries)
      tensors.push_back({fmt::format("parameter '{}'", entry.name), entry.parameter.value(), true});
  for (const auto& buffer : replica.model().named_buffers())
    tensors.push_back({fmt::format("buffer '{}'", buffer.name), buffer.tensor});
  if (replica.shards_optimizer()) return tensors;
  for (const auto& state : replica.optimizer().state())
    for (std::size_t s = 0; s < segments.size(); ++s)
      for (const auto& entry : segments[s].entries)
        tensors.push_back({fmt::format("{} of '{}'", state.name, entry.name),
                           state.segments[s].slice(0, entry.begin, entry.end)});
  return tensors;
}

std::string Divergence::describe() const {
  std::string text =
      fmt::format("replicas differ after step {}: {} in {} ({} element{}, by up to {:.3g})", step,
                  who, tensor, elements, elements == 1 ? "" : "s", largest_difference);
  if (tensors > 1)
    text += fmt::format(" and in {} more tensor{}", tensors - 1, tensors > 2 ? "s" : "");
  return text;
}

ConsistencyCheck::ConsistencyCheck(Context& context, comm::Communicator& communicator,
                                   std::vector<ReplicatedTensor> tensors)
    : context_(context),
      communicator_(communicator),
      tensors_(std::move(tensors)),
      flag_(Tensor::empty(context, {1}, DType::int32)),
      digests_on_device_(
          Tensor::empty(context, {static_cast<std::int64_t>(tensors_.size())}, DType::int64)),
      digests_(tensors_.size()) {
  for (const ReplicatedTensor& replicated : tensors_) {
    values_.push_back(replicated.tensor);
    seeds_.push_back(base::hash64(replicated.name));
  }
}

void ConsistencyCheck::compute_digests() {
  kernels::kernels_for(context_).digest(values_, seeds_, digests_on_device_);
  digests_on_device_.to_host(std::as_writable_bytes(std::span(digests_)));
}

std::uint64_t ConsistencyCheck::total() const {
  std::uint64_t sum = 0;
  for (const auto digest : digests_) sum += static_cast<std::uint64_t>(digest);
  return sum;
}

std::string ConsistencyCheck::weights_digest() const {
  std::uint64_t sum = 0;
  for (std::size_t t = 0; t < tensors_.size(); ++t)
    if (tensors_[t].is_parameter) sum += static_cast<std::uint64_t>(digests_[t]);
  return base::to_hex(sum);
}

std::optional<Divergence> ConsistencyCheck::run(std::int64_t step, Stream& stream) {
  compute_digests();
  const std::array whole{static_cast<std::int64_t>(total())};
  const Votes overall = count_votes(gather<std::int64_t>(context_, communicator_, whole, stream));
  if (overall.odd.empty()) return std::nullopt;

  Divergence divergence;
  divergence.step = step;
  divergence.reference = overall.reference;
  const auto all = gather<std::int64_t>(context_, communicator_, digests_, stream);
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::vector<std::int64_t> by_rank(ranks);
  std::optional<std::size_t> first;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    for (std::size_t r = 0; r < ranks; ++r) by_rank[r] = all[r * tensors_.size() + t];
    const Votes votes = count_votes(by_rank);
    if (votes.odd.empty()) continue;
    ++divergence.tensors;
    if (first) continue;
    first = t;
    divergence.who = in_words(votes);
    divergence.ranks = votes.odd;
    divergence.tensor = tensors_[t].name;
  }
  // Sums that differ have a part that does.
  measure(divergence, first.value(), stream);
  return divergence;
}

// Gradients that were finite may still have made a parameter that is not.
void ConsistencyCheck::require_finite_parameters(std::int64_t step) const {
  if (parameters_are_finite()) return;
  for (const ReplicatedTensor& replicated : tensors_) {
    if (!replicated.is_parameter) continue;
    if (const std::int64_t count = count_nonfinite(replicated.tensor); count > 0)
      throw NumericError(fmt::format(
          "{} is not finite after step {} ({} of {} elements), although the gradients were: it is "
          "not saved",
          replicated.name, step, count, replicated.tensor.count()));
  }
}

bool ConsistencyCheck::parameters_are_finite() const {
  const kernels::Kernels& kernels = kernels::kernels_for(context_);
  kernels.fill(0, flag_);
  for (const ReplicatedTensor& replicated : tensors_)
    if (replicated.is_parameter) kernels.find_nonfinite(replicated.tensor, flag_);
  return flag_.item<std::int32_t>() == 0;
}

// How far the ranks are from the reference.
void ConsistencyCheck::measure(Divergence& divergence, std::size_t tensor, Stream& stream) const {
  const Tensor& own = tensors_[tensor].tensor;
  const Tensor reference = Tensor::empty(context_, own.shape(), own.dtype());
  if (communicator_.rank() == divergence.reference)
    kernels::kernels_for(context_).copy(own, reference);
  stream.wait(context_.compute_stream().record());
  communicator_.broadcast(range_of(reference), divergence.reference, stream).wait();
  const Difference mine = difference(own, reference);
  HostValues<double> worst(context_, 2);
  worst[0] = static_cast<double>(mine.elements);
  worst[1] = mine.largest;
  communicator_.all_reduce(worst.range(), comm::ReduceOp::max, stream).wait();
  divergence.elements = static_cast<std::int64_t>(worst[0]);
  divergence.largest_difference = worst[1];
}

void ConsistencyCheck::take_values_of(int reference, Stream& stream) {
  stream.wait(context_.compute_stream().record());
  for (const auto& replicated : tensors_)
    communicator_.broadcast(range_of(replicated.tensor), reference, stream).wait();
}

}  // namespace lockstep::train
