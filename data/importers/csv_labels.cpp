#include "data/importers/csv_labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace lockstep::data {

namespace {

constexpr std::int64_t most_classes = 1'000'000;
constexpr std::size_t most_names = 10'000;
constexpr std::size_t names_in_message = 10;

// A whole number in [0, most_classes).
std::optional<std::int64_t> class_number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < 0 || value >= most_classes) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

CsvLabels::CsvLabels(std::vector<std::string> class_names)
    : given_(!class_names.empty()), names_(std::move(class_names)) {
  classes_ = static_cast<std::int64_t>(names_.size());
  for (std::int64_t i = 0; i < classes_; ++i) {
    class_of_name_.emplace(names_[static_cast<std::size_t>(i)], i);
  }
}

bool CsvLabels::collect(std::string_view label) {
  if (given_ || class_of_name_.contains(label)) return true;
  const auto number = class_number(label);
  numbered_ = numbered_ && number.has_value();
  if (number) largest_number_ = std::max(largest_number_, *number);
  class_of_name_.emplace(label, 0);
  return numbered_ || class_of_name_.size() <= most_names;
}

void CsvLabels::finish() {
  if (given_) return;
  if (numbered_) {
    classes_ = largest_number_ + 1;
    class_of_name_.clear();
    return;
  }
  for (auto& [name, number] : class_of_name_) {
    number = classes_++;
    names_.push_back(name);
  }
}

std::optional<std::int64_t> CsvLabels::class_of(const std::string& label) const {
  const auto found = class_of_name_.find(label);
  if (found != class_of_name_.end()) return found->second;
  const auto number = given_ || names_.empty() ? class_number(label) : std::nullopt;
  return number && *number < classes_ ? number : std::nullopt;
}

std::string CsvLabels::expected() const {
  if (names_.empty()) return fmt::format("0 to {}", classes_ - 1);
  const std::size_t shown = std::min(names_.size(), names_in_message);
  return fmt::format("one of {}{}",
                     fmt::join(names_.begin(), names_.begin() + static_cast<long>(shown), ", "),
                     shown < names_.size() ? ", ..." : "");
}

}  // namespace lockstep::data
