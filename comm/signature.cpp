#include "comm/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/base/hash.h"

namespace lockstep::comm {

namespace {

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce ||
         kind == CollectiveKind::reduce_scatter;
}

bool moves_data(CollectiveKind kind) {
  return kind != CollectiveKind::barrier && kind != CollectiveKind::split;
}

std::string list_ranks(std::span<const Signature> by_rank, const Signature& wanted) {
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < by_rank.size(); ++r)
    if (by_rank[r] == wanted) ranks.push_back(r);
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

std::string to_string(const Signature& signature) {
  if (signature.sequence == leaving) return "nothing more (it leaves the group)";
  std::vector<std::string> details;
  if (signature.tag != no_tag) details.push_back(fmt::format("bucket {}", signature.tag));
  if (moves_data(signature.kind))
    details.push_back(fmt::format("{} {}", signature.count, base::name_of(signature.dtype)));
  if (reduces(signature.kind)) details.emplace_back(name_of(signature.op));
  if (signature.root >= 0) details.push_back(fmt::format("root {}", signature.root));
  std::string text = fmt::format("{} number {}", name_of(signature.kind), signature.sequence);
  if (!details.empty()) text += fmt::format(" ({})", fmt::join(details, ", "));
  return text;
}

std::uint64_t hash_of_call(const Signature& signature) {
  // Member by member: the padding between them holds anything.
  const std::array<std::int64_t, 7> words = {signature.count,
                                             signature.tag,
                                             signature.root,
                                             static_cast<std::int64_t>(signature.kind),
                                             static_cast<std::int64_t>(signature.dtype),
                                             static_cast<std::int64_t>(signature.op),
                                             signature.algorithm};
  return base::hash64(std::as_bytes(std::span(words)));
}

void check_agreement(std::span<const Signature> by_rank) {
  const auto differs = std::find_if(by_rank.begin(), by_rank.end(),
                                    [&](const Signature& s) { return !(s == by_rank.front()); });
  if (differs == by_rank.end()) return;

  const auto votes = [&](const Signature& s) {
    return std::count(by_rank.begin(), by_rank.end(), s);
  };
  const auto most =
      std::max_element(by_rank.begin(), by_rank.end(),
                       [&](const Signature& a, const Signature& b) { return votes(a) < votes(b); });
  const auto odd = std::find_if(by_rank.begin(), by_rank.end(),
                                [&](const Signature& s) { return !(s == *most); });
  const bool majority = 2 * votes(*most) > static_cast<std::ptrdiff_t>(by_rank.size());
  // Equal words for unequal signatures can only be the algorithm.
  const bool same_words = to_string(*most) == to_string(*odd);
  const auto describe = [&](const Signature& s) {
    return same_words ? fmt::format("{} by algorithm {}", to_string(s), s.algorithm) : to_string(s);
  };
  throw RankError(majority ? static_cast<int>(odd - by_rank.begin()) : -1,
                  fmt::format("ranks disagree about a collective: {} called {}, but {} called {}",
                              list_ranks(by_rank, *odd), describe(*odd), list_ranks(by_rank, *most),
                              describe(*most)));
}

}  // namespace lockstep::comm
