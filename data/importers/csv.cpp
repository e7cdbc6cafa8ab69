#include "data/importers/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>

#include "data/dataset_writer.h"
#include "data/importers/channel_statistics.h"
#include "data/importers/csv_labels.h"
#include "data/importers/csv_reader.h"
#include "data/permutation.h"
#include "framework/base/error.h"

namespace lockstep::data {

namespace {

constexpr std::size_t rows_at_once = 1024;

std::optional<float> number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  float value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// A CSV file whose header has been read and whose rows all have the same number of columns.
class CsvTable {
 public:
  CsvTable(const std::string& path, const CsvOptions& options) : reader_(path, options.delimiter) {
    if (!reader_.read_row(fields_)) {
      throw DataError(path + ": found no rows, expected at least 1");
    }
    columns_ = fields_.size();
    if (columns_ < 2) {
      throw DataError(
          fmt::format("{}: found 1 column with the delimiter '{}', expected a label and at "
                      "least 1 feature",
                      where(), options.delimiter));
    }
    const bool has_number =
        std::ranges::any_of(fields_, [](const auto& field) { return number(field).has_value(); });
    if (options.header == CsvHeader::present ||
        (options.header == CsvHeader::automatic && !has_number)) {
      names_ = fields_;
    } else {
      at_first_row_ = true;
    }
    label_column_ = find_label(options.label);
  }

  std::size_t columns() const { return columns_; }
  bool next_row() {
    if (!std::exchange(at_first_row_, false) && !reader_.read_row(fields_)) return false;
    if (fields_.size() != columns_) {
      throw DataError(
          fmt::format("{}: found {} columns, expected {}", where(), fields_.size(), columns_));
    }
    return true;
  }
  const std::string& label() const { return fields_[label_column_]; }
  // Appends the row's features.
  void features(std::vector<float>& out) const {
    for (std::size_t column = 0; column < columns_; ++column) {
      if (column == label_column_) continue;
      const auto value = number(fields_[column]);
      if (!value || !std::isfinite(*value)) {
        throw DataError(fmt::format("{}: found '{}', expected a finite number", where(column),
                                    fields_[column]));
      }
      out.push_back(*value);
    }
  }
  [[noreturn]] void refuse_label(const std::string& expected) const {
    throw DataError(
        fmt::format("{}: found label '{}', expected {}", where(label_column_), label(), expected));
  }

 private:
  std::string where() const { return fmt::format("{}:{}", reader_.path(), reader_.line()); }
  std::string where(std::size_t column) const {
    return names_.empty() ? fmt::format("{}: column {}", where(), column + 1)
                          : fmt::format("{}: column {} ({})", where(), column + 1, names_[column]);
  }
  std::size_t find_label(const std::string& wanted) const {
    if (wanted.empty()) return columns_ - 1;
    const auto named = std::ranges::find(names_, wanted);
    if (named != names_.end()) return static_cast<std::size_t>(named - names_.begin());
    std::size_t numbered = 0;
    const char* const end = wanted.data() + wanted.size();
    const auto [stop, error] = std::from_chars(wanted.data(), end, numbered);
    if (error == std::errc{} && stop == end && numbered >= 1 && numbered <= columns_) {
      return numbered - 1;
    }
    throw DataError(
        fmt::format("{}: found no column '{}' for the labels, expected {}a number from 1 "
                    "to {}",
                    where(), wanted, names_.empty() ? "" : "a name of the header or ", columns_));
  }

  CsvReader reader_;
  std::vector<std::string> fields_;
  std::vector<std::string> names_;  // empty without a header
  std::size_t columns_ = 0;
  std::size_t label_column_ = 0;
  bool at_first_row_ = false;  // fields_ holds a row that next_row() has not given out
};

// Collects rows of a split and hands them to the writer in batches.
class SplitWriter {
 public:
  SplitWriter(DatasetWriter& writer, std::string split)
      : writer_(writer), split_(std::move(split)) {
    writer_.add_split(split_);
  }
  // Returns the row's features.
  std::span<const float> add(const CsvTable& table, std::int64_t label) {
    const std::size_t before = features_.size();
    table.features(features_);
    labels_.push_back(label);
    return std::span<const float>(features_).subspan(before);
  }
  void flush(std::size_t at_least = 1) {
    if (labels_.size() < at_least) return;
    writer_.append(split_, std::as_bytes(std::span(features_)), labels_);
    features_.clear();
    labels_.clear();
  }

 private:
  DatasetWriter& writer_;
  std::string split_;
  std::vector<float> features_;
  std::vector<std::int64_t> labels_;
};

struct Survey {
  std::int64_t rows = 0;
  std::size_t columns = 0;
  CsvLabels labels;
};

Survey survey(const CsvOptions& options) {
  Survey result{0, 0, CsvLabels(options.class_names)};
  CsvTable table(options.file, options);
  result.columns = table.columns();
  for (; table.next_row(); ++result.rows) {
    if (!result.labels.collect(table.label())) {
      table.refuse_label("a class (there are more different labels than classes are allowed)");
    }
  }
  result.labels.finish();
  if (result.rows == 0) {
    throw DataError(options.file + ": found no rows after the header, expected at least 1");
  }
  return result;
}

// Rows drawn for the test split: those whose place in a seeded shuffle is among the first.
class TestRows {
 public:
  TestRows(std::int64_t rows, double fraction, std::uint64_t seed)
      : order_(static_cast<std::uint64_t>(rows), seed, "test split", 0),
        count_(static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(rows)))) {}
  std::uint64_t count() const { return count_; }
  bool contains(std::int64_t row) const { return order_(static_cast<std::uint64_t>(row)) < count_; }

 private:
  Permutation order_;
  std::uint64_t count_;
};

std::int64_t class_of(const CsvTable& table, const CsvLabels& labels) {
  const auto found = labels.class_of(table.label());
  if (!found) table.refuse_label(labels.expected());
  return *found;
}

void write_test_file(const CsvOptions& options, const Survey& surveyed, DatasetWriter& writer) {
  CsvTable table(options.test_file, options);
  if (table.columns() != surveyed.columns) {
    throw DataError(fmt::format("{}: found {} columns, expected {} as in {}", options.test_file,
                                table.columns(), surveyed.columns, options.file));
  }
  SplitWriter test(writer, "test");
  while (table.next_row()) {
    test.add(table, class_of(table, surveyed.labels));
    test.flush(rows_at_once);
  }
  test.flush();
}

}  // namespace

void import_csv(const CsvOptions& options) {
  if (!(options.test_fraction >= 0 && options.test_fraction < 1) ||
      (options.test_fraction > 0 && !options.test_file.empty())) {
    throw UsageError(
        fmt::format("test fraction {}{}: expected a number in [0, 1), and no test file "
                    "beside it",
                    options.test_fraction, options.test_file.empty() ? "" : " and a test file"));
  }
  const Survey surveyed = survey(options);
  const TestRows test_rows(surveyed.rows, options.test_fraction, options.seed);
  if (test_rows.count() == static_cast<std::uint64_t>(surveyed.rows)) {
    throw DataError(
        fmt::format("{}: found {} rows, expected some to be left for training beside a "
                    "fraction of {} for testing",
                    options.file, surveyed.rows, options.test_fraction));
  }

  DatasetInfo info;
  info.name = options.name;
  info.dtype = DType::float32;
  info.feature_shape = Shape{static_cast<std::int64_t>(surveyed.columns) - 1};
  info.classes = surveyed.labels.classes();
  info.class_names = surveyed.labels.names();
  DatasetWriter writer(options.out, info);
  ChannelStatistics statistics(surveyed.columns - 1, 1);

  SplitWriter train(writer, "train");
  std::optional<SplitWriter> test;
  if (test_rows.count() > 0) test.emplace(writer, "test");
  CsvTable table(options.file, options);
  for (std::int64_t row = 0; table.next_row(); ++row) {
    const std::int64_t label = class_of(table, surveyed.labels);
    if (test && test_rows.contains(row)) {
      test->add(table, label);
      test->flush(rows_at_once);
    } else {
      statistics.add(train.add(table, label));
      train.flush(rows_at_once);
    }
  }
  train.flush();
  if (test) test->flush();
  if (!options.test_file.empty()) write_test_file(options, surveyed, writer);
  writer.set_normalization(statistics.normalization(1.0));
  writer.finish();
}

}  // namespace lockstep::data
