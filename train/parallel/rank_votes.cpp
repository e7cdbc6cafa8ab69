#include "train/parallel/rank_votes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::train {

Votes count_votes(std::span<const std::int64_t> by_rank) {
  Votes votes;
  std::ptrdiff_t most = 0;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const std::ptrdiff_t equal = std::count(by_rank.begin(), by_rank.end(), by_rank[rank]);
    if (equal <= most) continue;
    most = equal;
    votes.reference = static_cast<int>(rank);
  }
  votes.majority = 2 * static_cast<std::size_t>(most) > by_rank.size();
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank)
    if (by_rank[rank] != by_rank[static_cast<std::size_t>(votes.reference)])
      votes.odd.push_back(static_cast<int>(rank));
  return votes;
}

std::string in_words(const Votes& votes) {
  if (votes.majority)
    return fmt::format("rank{} {} differ{} from the others", votes.odd.size() > 1 ? "s" : "",
                       fmt::join(votes.odd, ", "), votes.odd.size() > 1 ? "" : "s");
  if (votes.odd.size() == 1)
    return fmt::format("ranks {} and {} differ", votes.reference, votes.odd[0]);
  return fmt::format("ranks {} differ from rank {}, and no majority agrees",
                     fmt::join(votes.odd, ", "), votes.reference);
}

}  // namespace lockstep::train
