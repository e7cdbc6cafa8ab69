#include "train/culprits.h"

#include <fmt/format.h>

#include <cmath>

#include "train/parallel/host_values.h"
#include "train/parallel/host_view.h"

namespace lockstep::train {
namespace {

// The place of the first feature that is not finite.
template <class T>
Culprit find_feature(const data::Batch& batch) {
  const HostView view(batch.features);
  const auto features = view.values<T>();
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (std::isfinite(features[i])) continue;
    const std::size_t width = features.size() / static_cast<std::size_t>(batch.rows);
    return {.sample = batch.indices[i / width], .element = static_cast<std::int64_t>(i % width)};
  }
  return {};
}

}  // namespace

std::vector<Culprit> find_culprits(comm::Communicator& communicator, Stream& stream, bool at_fault,
                                   const data::Batch& batch) {
  constexpr std::size_t fields = 3;
  Context& context = batch.features.context();
  HostValues<std::int64_t> all(context, fields * static_cast<std::size_t>(communicator.size()));
  if (at_fault) {
    const Culprit self = batch.rows == 0                            ? Culprit{}
                         : batch.features.dtype() == DType::float64 ? find_feature<double>(batch)
                                                                    : find_feature<float>(batch);
    std::int64_t* const mine = &all[fields * static_cast<std::size_t>(communicator.rank())];
    mine[0] = 1;
    mine[1] = self.sample;
    mine[2] = self.element;
  }
  communicator.all_gather(all.range(), stream).wait();
  std::vector<Culprit> culprits;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const std::int64_t* const his = &all[fields * static_cast<std::size_t>(rank)];
    if (his[0] != 0) culprits.push_back({rank, his[1], his[2]});
  }
  return culprits;
}

std::string describe(const std::vector<Culprit>& culprits, const std::string& data_file) {
  if (culprits.empty()) return "in the sum over all ranks only";
  std::string text;
  for (const auto& culprit : culprits) {
    text += fmt::format("{}on rank {}", text.empty() ? "" : ", ", culprit.rank);
    if (culprit.sample >= 0)
      text +=
          fmt::format(" (training sample {} of '{}' has a feature that is not finite, element {})",
                      culprit.sample, data_file, culprit.element);
  }
  return text;
}

}  // namespace lockstep::train
