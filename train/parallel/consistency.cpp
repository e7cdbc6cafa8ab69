#include "train/parallel/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "framework/base/hash.h"

namespace lockstep::train {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data()), tensor.bytes()};
}

// `values` of every rank, rank by rank.
std::vector<std::int64_t> gather(comm::Communicator& communicator,
                                 const std::vector<std::int64_t>& values, Stream& stream) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  std::vector<std::int64_t> all(values.size() * static_cast<std::size_t>(communicator.size()));
  std::copy(values.begin(), values.end(),
            all.begin() + static_cast<std::ptrdiff_t>(rank * values.size()));
  communicator.all_gather(comm::range_of(std::span(all)), stream).wait();
  return all;
}

// The ranks outside the largest group of equal values, in words.
std::string odd_ones_out(const std::vector<std::int64_t>& by_rank) {
  std::map<std::int64_t, int> votes;
  for (auto value : by_rank) ++votes[value];
  const auto majority = std::max_element(votes.begin(), votes.end(),
                                         [](auto& a, auto& b) { return a.second < b.second; });
  if (2 * static_cast<std::size_t>(majority->second) <= by_rank.size()) {
    if (by_rank.size() == 2) return "ranks 0 and 1 differ";
    return fmt::format("no majority of ranks agrees ({} different values)", votes.size());
  }
  std::string ranks;
  int odd = 0;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    if (by_rank[r] == majority->first) continue;
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", r);
    ++odd;
  }
  return fmt::format("rank{} {} differ{} from the others", odd > 1 ? "s" : "", ranks,
                     odd > 1 ? "" : "s");
}

}  // namespace

void require_equal_replicas(comm::Communicator& communicator, const nn::ParameterArena& arena,
                            std::int64_t step, Stream& stream) {
  std::uint64_t whole = 0;
  for (const auto& segment : arena.segments())
    whole = base::hash64(bytes_of(segment.parameters), whole);
  const auto wholes = gather(communicator, {static_cast<std::int64_t>(whole)}, stream);
  if (std::all_of(wholes.begin(), wholes.end(), [&](auto value) { return value == wholes[0]; }))
    return;

  std::vector<std::string> names;
  std::vector<std::int64_t> digests;
  for (const auto& segment : arena.segments())
    for (const auto& entry : segment.entries) {
      names.push_back(entry.name);
      digests.push_back(static_cast<std::int64_t>(base::hash64(bytes_of(entry.parameter.value()))));
    }
  const auto all = gather(communicator, digests, stream);
  for (std::size_t p = 0; p < names.size(); ++p) {
    std::vector<std::int64_t> by_rank;
    for (std::size_t r = 0; r < wholes.size(); ++r) by_rank.push_back(all[r * names.size() + p]);
    if (std::any_of(by_rank.begin(), by_rank.end(),
                    [&](auto value) { return value != by_rank[0]; }))
      throw NumericError(fmt::format("replicas differ after step {}: {} in parameter '{}'", step,
                                     odd_ones_out(by_rank), names[p]));
  }
  throw NumericError(fmt::format("replicas differ after step {}: {} between parameters (padding)",
                                 step, odd_ones_out(wholes)));
}

}  // namespace lockstep::train
