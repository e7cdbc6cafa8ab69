#include "data/importers/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "data/dataset_writer.h"
#include "data/importers/channel_statistics.h"
#include "data/importers/input.h"
#include "data/importers/known_sets.h"
#include "framework/base/error.h"

namespace lockstep::data {

namespace {

enum class IdxType : std::uint8_t { uint8 = 0x08, float32 = 0x0D };

constexpr std::int64_t rows_at_once = 1024;
constexpr int most_elements = 1 << 28;  // of a sample; a chunk of an HDF5 file holds under 4 GiB

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

// An IDX file read up to its elements.
struct IdxFile {
  Input input;
  IdxType type{};
  std::vector<std::int64_t> extents;

  explicit IdxFile(const std::string& path) : input(path) {
    std::array<std::byte, 4> magic{};
    input.read(magic, "the header");
    const auto rank = std::to_integer<std::size_t>(magic[3]);
    if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || rank == 0) {
      throw DataError(
          fmt::format("{}: found first bytes {:08x}, expected an IDX header: 0000, type, "
                      "number of axes",
                      path, big_endian(magic.data())));
    }
    type = static_cast<IdxType>(magic[2]);
    std::vector<std::byte> sizes(4 * rank);
    input.read(sizes, "the header");
    for (std::size_t i = 0; i < rank; ++i) extents.push_back(big_endian(&sizes[4 * i]));
  }

  std::int64_t rows() const { return extents.front(); }
  std::string type_name() const { return fmt::format("0x{:02x}", static_cast<int>(type)); }

  void expect_end() {
    std::byte extra{};
    if (input.read_some({&extra, 1}) != 0) {
      throw DataError(
          fmt::format("{}: found more bytes than the header's {} rows take", input.path(), rows()));
    }
  }
};

struct Labels {
  std::string path;
  std::vector<std::int64_t> values;
};

Labels read_labels(const std::string& path) {
  IdxFile file(path);
  if (file.type != IdxType::uint8 || file.extents.size() != 1) {
    throw DataError(
        fmt::format("{}: found type {} with {} axes, expected labels: uint8 (0x08) with 1 "
                    "axis",
                    path, file.type_name(), file.extents.size()));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.rows()));
  file.input.read(bytes, "the labels");
  file.expect_end();
  Labels labels{path, {}};
  for (const std::byte byte : bytes) labels.values.push_back(std::to_integer<std::int64_t>(byte));
  return labels;
}

IdxFile open_features(const std::string& path, const Labels& labels) {
  IdxFile file(path);
  if (file.type != IdxType::uint8 && file.type != IdxType::float32) {
    throw DataError(
        fmt::format("{}: found type {}, expected features of uint8 (0x08) or float32 "
                    "(0x0d)",
                    path, file.type_name()));
  }
  const std::span of_sample = std::span(file.extents).subspan(1);
  double elements = 1;
  for (const std::int64_t extent : of_sample) elements *= static_cast<double>(extent);
  if (of_sample.empty() || of_sample.size() >= Shape::max_rank || elements < 1 ||
      elements > most_elements) {
    throw DataError(
        fmt::format("{}: found shape [{}], expected [N, ...] with 1 to {} feature axes "
                    "and 1 to {} elements in a sample",
                    path, fmt::join(file.extents, ", "), Shape::max_rank - 1, most_elements));
  }
  const auto rows = static_cast<std::int64_t>(labels.values.size());
  if (file.rows() != rows) {
    throw DataError(fmt::format("{}: found {} rows, expected {} as in {}", path, file.rows(), rows,
                                labels.path));
  }
  return file;
}

// The header of the features as the data set will say it.
void describe_features(const IdxFile& features, DatasetInfo& info) {
  std::vector<std::int64_t> extents(features.extents.begin() + 1, features.extents.end());
  if (extents.size() == 2) extents.insert(extents.begin(), 1);
  info.dtype = features.type == IdxType::uint8 ? DType::uint8 : DType::float32;
  info.feature_shape = Shape(extents);
}

void to_native_floats(std::span<std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    const std::uint32_t bits = big_endian(&bytes[at]);
    std::memcpy(&bytes[at], &bits, sizeof(bits));
  }
}

// Streams the features of a split to the file, past `see_rows`.
template <class SeeRows>
void write_split(DatasetWriter& writer, const std::string& split, IdxFile& features,
                 const Labels& labels, std::size_t row_bytes, SeeRows&& see_rows) {
  writer.add_split(split);
  std::vector<std::byte> bytes;
  std::span<const std::int64_t> left(labels.values);
  while (!left.empty()) {
    const std::size_t rows = std::min<std::size_t>(rows_at_once, left.size());
    bytes.resize(rows * row_bytes);
    features.input.read(bytes, "the features");
    if (features.type == IdxType::float32) to_native_floats(bytes);
    see_rows(std::span<const std::byte>(bytes));
    writer.append(split, bytes, left.first(rows));
    left = left.subspan(rows);
  }
  features.expect_end();
}

void check_labels(const Labels& labels, std::int64_t classes) {
  const auto bad =
      std::ranges::find_if(labels.values, [&](auto label) { return label >= classes; });
  if (bad != labels.values.end()) {
    throw DataError(fmt::format("{}: found label {} in row {}, expected 0 to {}", labels.path, *bad,
                                bad - labels.values.begin(), classes - 1));
  }
}

}  // namespace

IdxFiles idx_files_in(const std::string& folder) {
  const auto find = [&](const std::string& name) {
    const std::string plain = (std::filesystem::path(folder) / name).string();
    for (const std::string& path : {plain, plain + ".gz"}) {
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored)) return path;
    }
    throw DataError(fmt::format("{}: found neither {} nor {}.gz", folder, name, name));
  };
  return {find("train-images-idx3-ubyte"), find("train-labels-idx1-ubyte"),
          find("t10k-images-idx3-ubyte"), find("t10k-labels-idx1-ubyte")};
}

void import_idx(const IdxFiles& files, const IdxOptions& options) {
  const Labels train_labels = read_labels(files.train_labels);
  if (train_labels.values.empty()) {
    throw DataError(files.train_labels + ": found 0 rows, expected at least 1");
  }
  IdxFile train_features = open_features(files.train_features, train_labels);

  DatasetInfo info;
  info.name = options.name;
  info.class_names =
      options.class_names.empty() ? known_class_names(options.name) : options.class_names;
  info.classes = info.class_names.empty() ? std::ranges::max(train_labels.values) + 1
                                          : static_cast<std::int64_t>(info.class_names.size());
  check_labels(train_labels, info.classes);
  describe_features(train_features, info);

  const auto channels = static_cast<std::size_t>(info.feature_shape[0]);
  const std::size_t row_bytes = info.row_bytes();
  ChannelStatistics statistics(channels,
                               static_cast<std::size_t>(info.feature_shape.count()) / channels);
  const auto count_in = [&](std::span<const std::byte> rows) {
    if (info.dtype == DType::uint8) {
      statistics.add(std::span(reinterpret_cast<const std::uint8_t*>(rows.data()), rows.size()));
    } else {
      statistics.add(std::span(reinterpret_cast<const float*>(rows.data()), rows.size() / 4));
    }
  };

  DatasetWriter writer(options.out, info);
  write_split(writer, "train", train_features, train_labels, row_bytes, count_in);
  if (!files.test_features.empty()) {
    const Labels test_labels = read_labels(files.test_labels);
    check_labels(test_labels, info.classes);
    IdxFile test_features = open_features(files.test_features, test_labels);
    if (test_features.type != train_features.type ||
        !std::equal(test_features.extents.begin() + 1, test_features.extents.end(),
                    train_features.extents.begin() + 1, train_features.extents.end())) {
      throw DataError(fmt::format("{}: the samples differ in type or shape from those of {}",
                                  files.test_features, files.train_features));
    }
    write_split(writer, "test", test_features, test_labels, row_bytes,
                [](std::span<const std::byte>) {});
  }
  writer.set_normalization(statistics.normalization(info.dtype == DType::uint8 ? 1.0 / 255 : 1.0));
  writer.finish();
}

}  // namespace lockstep::data
