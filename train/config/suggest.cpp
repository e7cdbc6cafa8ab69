#include "train/config/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace lockstep::train {
namespace {

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('.') + 1);  // npos + 1 is 0
}

std::string_view section_of(std::string_view path) {
  return path.substr(0, path.size() - last_part(path).size());
}

std::string any_of(const std::vector<std::string>& words) {
  if (words.size() == 1) return words.front();
  const std::span<const std::string> all(words);
  return fmt::format("{} or {}", fmt::join(all.first(all.size() - 1), ", "), all.back());
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_above(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) current[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_above, above);
    std::swap(above, current);
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({replaced, above[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], two_above[j - 2] + 1);
      }
    }
  }
  return current[b.size()];
}

bool is_near(std::string_view a, std::string_view b) {
  return edit_distance(a, b) <= std::max<std::size_t>(1, std::min(a.size(), b.size()) / 3);
}

std::string suggest(std::string_view path, std::span<const KnownKey> known) {
  const std::string_view word = last_part(path);
  std::size_t best = std::numeric_limits<std::size_t>::max();
  bool near = false;
  std::vector<std::string> found;
  for (const KnownKey& key : known) {
    std::vector<std::string_view> names = {last_part(key.path)};
    names.insert(names.end(), key.other_names.begin(), key.other_names.end());
    for (const std::string_view name : names) {
      const std::size_t score =
          2 * edit_distance(word, name) + (section_of(path) == section_of(key.path) ? 0 : 1);
      if (score > best) continue;
      if (score < best) found.clear();
      best = score;
      near = is_near(word, name);
      if (found.empty() || found.back() != key.path) found.push_back(key.path);
    }
  }
  if (!near) return fmt::format("the nearest known key is {}", found.front());
  return fmt::format("did you mean {}?", any_of(found));
}

std::string nearest(std::string_view word, std::span<const std::string> words) {
  const auto distance = [&](const std::string& other) { return edit_distance(word, other); };
  const auto best = std::ranges::min_element(words, {}, distance);
  return best != words.end() && is_near(word, *best) ? *best : "";
}

}  // namespace lockstep::train
