#include "data/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/base/error.h"

namespace lockstep::data {

namespace {

constexpr std::int64_t labels_at_once = 1 << 17;
constexpr std::size_t most_shown = 20;  // classes, channels

std::vector<std::int64_t> samples_of_classes(const DatasetFile& file, const SplitInfo& split) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(file.info().classes));
  std::vector<std::int64_t> labels;
  for (std::int64_t first = 0; first < split.samples; first += labels_at_once) {
    labels.resize(static_cast<std::size_t>(std::min(labels_at_once, split.samples - first)));
    file.read_labels(split.name, first, labels);
    for (const std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

std::string listed(const std::vector<double>& values) {
  const auto shown = static_cast<std::ptrdiff_t>(std::min(values.size(), most_shown));
  return fmt::format("{:.6g}{}", fmt::join(values.begin(), values.begin() + shown, ", "),
                     values.size() > most_shown ? ", ..." : "");
}

std::string class_table(const DatasetFile& file) {
  const DatasetInfo& info = file.info();
  std::vector<std::vector<std::int64_t>> counts;
  std::string text = fmt::format("  {:>7}  {:<24}", "class", "name");
  for (const SplitInfo& split : info.splits) {
    counts.push_back(samples_of_classes(file, split));
    text += fmt::format("{:>12}", split.name);
  }
  text += '\n';
  const std::size_t shown = std::min(static_cast<std::size_t>(info.classes), most_shown);
  for (std::size_t i = 0; i < shown; ++i) {
    text += fmt::format("  {:>7}  {:<24}", i, info.class_names.empty() ? "-" : info.class_names[i]);
    for (const auto& of_split : counts) text += fmt::format("{:>12}", of_split[i]);
    text += '\n';
  }
  if (shown < static_cast<std::size_t>(info.classes)) {
    text += fmt::format("  ... {} more\n", static_cast<std::size_t>(info.classes) - shown);
  }
  return text;
}

}  // namespace

std::string summary(const DatasetInfo& info) {
  std::vector<std::string> splits;
  for (const SplitInfo& split : info.splits) {
    splits.push_back(fmt::format("{} {}", split.samples, split.name));
  }
  return fmt::format("{} samples of {} {}, {} classes", fmt::join(splits, " and "),
                     base::name_of(info.dtype), to_string(info.feature_shape), info.classes);
}

std::string describe(const DatasetFile& file) {
  const DatasetInfo& info = file.info();
  const Normalization& normalization = info.normalization;
  std::string text = fmt::format("{}: {} {}\n", file.path(), dataset_format, dataset_version) +
                     fmt::format("name      {}\n", info.name.empty() ? "-" : info.name) +
                     fmt::format("features  {} {}, {} bytes a sample\n", base::name_of(info.dtype),
                                 to_string(info.feature_shape), info.row_bytes()) +
                     fmt::format("scale     {:.6g}\n", normalization.scale) +
                     fmt::format("mean      {}\n", listed(normalization.mean)) +
                     fmt::format("std       {}\n", listed(normalization.std));
  for (const SplitInfo& split : info.splits) {
    text +=
        fmt::format("split     {}: {} samples, {} rows a chunk, {}\n", split.name, split.samples,
                    split.chunk_rows, split.has_checksums ? "with checksums" : "no checksums");
  }
  return text + fmt::format("classes   {}\n", info.classes) + class_table(file);
}

std::vector<std::string> find_damage(const DatasetFile& file) {
  const DatasetInfo& info = file.info();
  std::vector<std::string> messages;
  std::vector<std::byte> features;
  std::vector<std::int64_t> labels;
  for (const SplitInfo& split : info.splits) {
    for (std::int64_t first = 0; first < split.samples; first += split.block_rows) {
      labels.resize(static_cast<std::size_t>(std::min(split.block_rows, split.samples - first)));
      features.resize(labels.size() * info.row_bytes());
      try {
        file.read(split.name, first, features, labels);
      } catch (const DataError& error) {
        messages.emplace_back(error.what());
      }
    }
  }
  return messages;
}

}  // namespace lockstep::data
