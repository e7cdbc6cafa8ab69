#include "data/dataset_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "data/block_checksum.h"
#include "data/dataset_header.h"
#include "data/hdf5_table.h"
#include "framework/base/error.h"

namespace lockstep::data {

namespace {

using hdf5::check;
using hdf5::Handle;
using hdf5::Table;

constexpr std::int64_t block_bytes = std::int64_t{1} << 20;
constexpr std::int64_t most_bytes = std::int64_t{1} << 60;
constexpr std::int64_t label_bytes = sizeof(std::int64_t);
constexpr int max_feature_rank = Shape::max_rank - 1;  // a batch has one axis more

Handle open_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw DataError(path + ": no such file, expected a data set file");
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw DataError(
        fmt::format("{}: found a {}, expected a data set file", path,
                    std::filesystem::is_directory(status) ? "directory" : "special file"));
  }
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, path);
  // Files are replaced by renaming and never changed in place; locks only fail on file systems that
  // have none.
  check(H5Pset_file_locking(access.get(), false, true), path);
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose,
          path + ": found a file that cannot be opened, expected a data set file"};
}

DType feature_dtype(const Table& features) {
  const std::string found = features.type_name();
  if (found == "uint8") return DType::uint8;
  if (found == "float32") return DType::float32;
  throw DataError(fmt::format("{}: found elements of type {}, expected uint8 or float32",
                              features.where, found));
}

Shape feature_shape(const Table& features) {
  const auto rank = static_cast<int>(features.extents.size());
  const bool empty = std::any_of(features.extents.begin() + std::min(rank, 1),
                                 features.extents.end(), [](std::int64_t n) { return n < 1; });
  if (rank < 2 || rank > max_feature_rank + 1 || empty) {
    throw DataError(fmt::format("{}: found shape [{}], expected [N, ...] with 1 to {} feature axes",
                                features.where, fmt::join(features.extents, ", "),
                                max_feature_rank));
  }
  return Shape(std::span(features.extents).subspan(1));
}

void check_labels_header(const Table& labels, std::int64_t samples) {
  if (labels.type_name() != "int64") {
    throw DataError(fmt::format("{}: found elements of type {}, expected int64", labels.where,
                                labels.type_name()));
  }
  if (labels.extents.size() != 1) {
    throw DataError(fmt::format("{}: found shape [{}], expected [N]", labels.where,
                                fmt::join(labels.extents, ", ")));
  }
  if (labels.extents[0] != samples) {
    throw DataError(fmt::format("{}: found {} rows, expected {} as in 'features'", labels.where,
                                labels.extents[0], samples));
  }
}

// The checksums of a split; none when the file has none.
std::vector<std::uint64_t> read_checksums(hid_t group, const Table& features,
                                          const std::string& group_where) {
  const auto names = hdf5::member_names(group, group_where);
  if (std::ranges::find(names, checksums_name) == names.end()) return {};
  const Table table =
      hdf5::open_table(group, std::string(checksums_name), group_where, hdf5::Access::cached);
  const std::int64_t rows = features.chunk_rows;
  const std::int64_t expected = rows == 0 ? 0 : (features.extents[0] + rows - 1) / rows;
  if (table.type_name() != "uint64" || table.extents != std::vector{expected}) {
    throw DataError(
        fmt::format("{}: found type {} and shape [{}], expected uint64 and one for each chunk of "
                    "'features': [{}]",
                    table.where, table.type_name(), fmt::join(table.extents, ", "), expected));
  }
  std::vector<std::uint64_t> checksums(static_cast<std::size_t>(expected));
  if (expected > 0) hdf5::read_rows(table, H5T_NATIVE_UINT64, 0, expected, checksums.data());
  return checksums;
}

}  // namespace

struct DatasetFile::Impl {
  struct Split {
    Table features;
    Table labels;
    std::vector<std::uint64_t> checksums;
  };

  std::string path;
  Handle file;
  DatasetInfo info;
  std::vector<Split> splits;  // as info.splits

  void open_split(const std::string& name);
  std::size_t index_of(std::string_view name) const;
  void check_range(const SplitInfo& split, std::int64_t first, std::int64_t rows) const;
  void read_labels(std::size_t index, std::int64_t first, std::span<std::int64_t> labels) const;
  void verify(std::size_t index, std::int64_t first, std::span<const std::byte> features,
              std::span<const std::int64_t> labels) const;
};

void DatasetFile::Impl::open_split(const std::string& name) {
  const std::string where = path + ": /" + name;
  const Handle group(H5Gopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Gclose,
                     where + ": found something else than a group, expected the group of a split");
  Split split;
  split.features = hdf5::open_table(group.get(), "features", where, hdf5::Access::whole_chunks);
  split.labels = hdf5::open_table(group.get(), "labels", where, hdf5::Access::cached);

  const DType dtype = feature_dtype(split.features);
  const Shape shape = feature_shape(split.features);
  if (info.splits.empty()) {
    info.dtype = dtype;
    info.feature_shape = shape;
  } else if (dtype != info.dtype || !(shape == info.feature_shape)) {
    throw DataError(fmt::format("{}: found samples of {} {}, expected {} {} as in /{}",
                                split.features.where, base::name_of(dtype), to_string(shape),
                                base::name_of(info.dtype), to_string(info.feature_shape),
                                info.splits.front().name));
  }
  check_labels_header(split.labels, split.features.extents[0]);
  split.checksums = read_checksums(group.get(), split.features, where);

  SplitInfo described;
  described.name = name;
  described.samples = split.features.extents[0];
  const auto row_bytes = static_cast<std::int64_t>(info.row_bytes());
  if (described.samples > most_bytes / (row_bytes + label_bytes)) {
    throw DataError(fmt::format("{}: found {} rows of {} bytes, more than can be addressed",
                                split.features.where, described.samples, row_bytes));
  }
  const std::int64_t about = std::max<std::int64_t>(1, block_bytes / row_bytes);
  described.chunk_rows = split.features.chunk_rows > 0 ? split.features.chunk_rows : about;
  described.block_rows =
      described.chunk_rows *
      std::max<std::int64_t>(1, (about + described.chunk_rows / 2) / described.chunk_rows);
  described.has_checksums = !split.checksums.empty();
  info.splits.push_back(std::move(described));
  splits.push_back(std::move(split));
}

std::size_t DatasetFile::Impl::index_of(std::string_view name) const {
  const auto found = std::ranges::find(info.splits, name, &SplitInfo::name);
  if (found == info.splits.end()) {
    std::vector<std::string> names;
    for (const SplitInfo& split : info.splits) names.push_back(split.name);
    throw DataError(fmt::format("{}: found splits {}, expected '{}'{}", path, hdf5::listed(names),
                                name,
                                name == "test" ? " (see dataset import --test-fraction)" : ""));
  }
  return static_cast<std::size_t>(found - info.splits.begin());
}

void DatasetFile::Impl::check_range(const SplitInfo& split, std::int64_t first,
                                    std::int64_t rows) const {
  if (first < 0 || rows > split.samples - first) {
    throw UsageError(fmt::format("{}: /{}: rows [{}, {}) asked for, the split has {}", path,
                                 split.name, first, first + rows, split.samples));
  }
}

void DatasetFile::Impl::read_labels(std::size_t index, std::int64_t first,
                                    std::span<std::int64_t> labels) const {
  const Table& table = splits[index].labels;
  hdf5::read_rows(table, H5T_NATIVE_INT64, first, static_cast<std::int64_t>(labels.size()),
                  labels.data());
  const auto bad = std::ranges::find_if(
      labels, [&](std::int64_t label) { return label < 0 || label >= info.classes; });
  if (bad != labels.end()) {
    throw DataError(fmt::format("{}: found label {} in row {}, expected 0 to {}", table.where, *bad,
                                first + (bad - labels.begin()), info.classes - 1));
  }
}

void DatasetFile::Impl::verify(std::size_t index, std::int64_t first,
                               std::span<const std::byte> features,
                               std::span<const std::int64_t> labels) const {
  const SplitInfo& split = info.splits[index];
  const std::int64_t end = first + static_cast<std::int64_t>(labels.size());
  const std::int64_t first_chunk = (first + split.chunk_rows - 1) / split.chunk_rows;
  for (std::int64_t chunk = first_chunk;; ++chunk) {
    const std::int64_t begin = chunk * split.chunk_rows;
    const std::int64_t stop = std::min(begin + split.chunk_rows, split.samples);
    if (begin >= stop || stop > end) return;
    const auto offset = static_cast<std::size_t>(begin - first);
    const auto rows = static_cast<std::size_t>(stop - begin);
    const std::uint64_t found =
        block_checksum(features.subspan(offset * info.row_bytes(), rows * info.row_bytes()),
                       labels.subspan(offset, rows));
    const std::uint64_t expected = splits[index].checksums[static_cast<std::size_t>(chunk)];
    if (found != expected) {
      throw DataError(
          fmt::format("{}: /{}: rows [{}, {}) are damaged: found checksum {:016x}, "
                      "expected {:016x}",
                      path, split.name, begin, stop, found, expected));
    }
  }
}

DatasetFile::DatasetFile(const std::string& path) : impl_(std::make_unique<Impl>()) {
  const auto guard = hdf5::lock();
  impl_->path = path;
  impl_->file = open_file(path);
  const hid_t root = impl_->file.get();
  DatasetInfo& info = impl_->info;
  read_header(root, path, info);
  auto names = hdf5::member_names(root, path);
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name == "train"; });
  for (const std::string& name : names) impl_->open_split(name);
  if (info.splits.empty()) {
    throw DataError(path + ": found no groups, expected one for each split (/train, /test)");
  }
  check_normalization(path, info);
}

DatasetFile::~DatasetFile() = default;
DatasetFile::DatasetFile(DatasetFile&&) noexcept = default;
DatasetFile& DatasetFile::operator=(DatasetFile&&) noexcept = default;

const std::string& DatasetFile::path() const {
  return impl_->path;
}
const DatasetInfo& DatasetFile::info() const {
  return impl_->info;
}
const SplitInfo& DatasetFile::split(std::string_view name) const {
  return impl_->info.splits[impl_->index_of(name)];
}

void DatasetFile::read(std::string_view name, std::int64_t first, std::span<std::byte> features,
                       std::span<std::int64_t> labels, bool verify) const {
  const std::size_t index = impl_->index_of(name);
  const auto rows = static_cast<std::int64_t>(labels.size());
  impl_->check_range(impl_->info.splits[index], first, rows);
  if (features.size() != labels.size() * impl_->info.row_bytes()) {
    throw UsageError(fmt::format("{} bytes given for {} rows of {} bytes", features.size(), rows,
                                 impl_->info.row_bytes()));
  }
  if (rows == 0) return;
  {
    const auto guard = hdf5::lock();
    const hid_t type = impl_->info.dtype == DType::uint8 ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT;
    hdf5::read_rows(impl_->splits[index].features, type, first, rows, features.data());
    impl_->read_labels(index, first, labels);
  }
  if (verify && impl_->info.splits[index].has_checksums) {
    impl_->verify(index, first, features, labels);
  }
}

void DatasetFile::read_labels(std::string_view name, std::int64_t first,
                              std::span<std::int64_t> labels) const {
  const std::size_t index = impl_->index_of(name);
  impl_->check_range(impl_->info.splits[index], first, static_cast<std::int64_t>(labels.size()));
  if (labels.empty()) return;
  const auto guard = hdf5::lock();
  impl_->read_labels(index, first, labels);
}

}  // namespace lockstep::data
