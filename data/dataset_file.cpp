#include "data/dataset_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/block_checksum.h"
#include "data/hdf5_attributes.h"
#include "framework/base/error.h"

namespace lockstep::data {

namespace {

using hdf5::check;
using hdf5::Handle;

constexpr std::int64_t block_bytes = std::int64_t{1} << 20;
constexpr int max_feature_rank = Shape::max_rank - 1;  // a batch has one axis more

Handle open_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw DataError(path + ": no such file, expected a data set file");
  }
  if (status.type() == std::filesystem::file_type::directory) {
    throw DataError(path + ": found a directory, expected a data set file");
  }
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, path);
  // Files are replaced by renaming and never changed in place; locks only fail on file systems that
  // have none.
  check(H5Pset_file_locking(access.get(), false, true), path);
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose,
          path + ": cannot be opened as an HDF5 file"};
}

std::vector<std::string> member_names(hid_t group, const std::string& where) {
  H5G_info_t info{};
  check(H5Gget_info(group, &info), where);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto get = [&](char* name, std::size_t size) {
      return check(
          H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, size, H5P_DEFAULT),
          where);
    };
    std::string name(static_cast<std::size_t>(get(nullptr, 0)), '\0');
    get(name.data(), name.size() + 1);
    names.push_back(std::move(name));
  }
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : fmt::format("'{}'", fmt::join(names, "', '"));
}

// A dataset and what its header says, before it is judged.
struct Table {
  Handle dataset;
  Handle type;
  std::vector<std::int64_t> extents;
  std::int64_t chunk_rows = 0;  // 0: not chunked
  std::string where;

  std::string type_name() const { return hdf5::describe_type(type.get()); }
};

Table open_table(hid_t group, const std::string& name, const std::string& group_where) {
  Table table;
  table.where = group_where + "/" + name;
  const auto names = member_names(group, group_where);
  if (std::ranges::find(names, name) == names.end()) {
    throw DataError(fmt::format("{}: found {}, expected datasets 'features' and 'labels'",
                                group_where, listed(names)));
  }
  const Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, table.where);
  // Blocks are read whole and once, so a cache of chunks would only cost a copy and memory.
  if (name == "features") check(H5Pset_chunk_cache(access.get(), 0, 0, 1), table.where);
  table.dataset = Handle(H5Dopen2(group, name.c_str(), access.get()), H5Dclose,
                         table.where + ": cannot be opened as a dataset");
  table.type = Handle(H5Dget_type(table.dataset.get()), H5Tclose, table.where);

  const Handle space(H5Dget_space(table.dataset.get()), H5Sclose, table.where);
  const int rank = check(H5Sget_simple_extent_ndims(space.get()), table.where);
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), table.where);
  table.extents.assign(extents.begin(), extents.end());

  const Handle layout(H5Dget_create_plist(table.dataset.get()), H5Pclose, table.where);
  if (H5Pget_layout(layout.get()) == H5D_CHUNKED) {
    check(H5Pget_chunk(layout.get(), rank, extents.data()), table.where);
    table.chunk_rows = static_cast<std::int64_t>(extents[0]);
  }
  if (check(H5Pall_filters_avail(layout.get()), table.where) == 0) {
    throw DataError(table.where + ": is compressed by a filter that this HDF5 library lacks");
  }
  return table;
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

void read_rows(const Table& table, hid_t memory_type, std::int64_t first, std::int64_t rows,
               void* out) {
  const Handle file_space(H5Dget_space(table.dataset.get()), H5Sclose, table.where);
  std::vector<hsize_t> start(table.extents.size(), 0);
  std::vector<hsize_t> count(table.extents.begin(), table.extents.end());
  start[0] = static_cast<hsize_t>(first);
  count[0] = static_cast<hsize_t>(rows);
  const std::string& what = table.where;
  check(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(),
                            nullptr),
        what);
  const Handle memory_space(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                            H5Sclose, what);
  if (H5Dread(table.dataset.get(), memory_type, memory_space.get(), file_space.get(), H5P_DEFAULT,
              out) < 0) {
    hdf5::fail(fmt::format("{}: rows [{}, {}) cannot be read", what, first, first + rows));
  }
}

// The checksums of a split; none when the file has none.
std::vector<std::uint64_t> read_checksums(hid_t group, const Table& features,
                                          const std::string& group_where) {
  const auto names = member_names(group, group_where);
  if (std::ranges::find(names, checksums_name) == names.end()) return {};
  const Table table = open_table(group, std::string(checksums_name), group_where);
  const std::int64_t rows = features.chunk_rows;
  const std::int64_t expected = rows == 0 ? 0 : (features.extents[0] + rows - 1) / rows;
  if (table.type_name() != "uint64" || table.extents != std::vector{expected}) {
    throw DataError(
        fmt::format("{}: found type {} and shape [{}], expected uint64 and one for each chunk of "
                    "'features': [{}]",
                    table.where, table.type_name(), fmt::join(table.extents, ", "), expected));
  }
  std::vector<std::uint64_t> checksums(static_cast<std::size_t>(expected));
  if (expected > 0) read_rows(table, H5T_NATIVE_UINT64, 0, expected, checksums.data());
  return checksums;
}

Normalization read_normalization(hid_t root, const Shape& shape, const std::string& where) {
  Normalization result;
  if (auto scale = hdf5::read_reals(root, "scale", where)) {
    if (scale->size() != 1 || !std::isfinite(scale->front()) || scale->front() == 0) {
      throw DataError(fmt::format("{}: attribute 'scale': found [{}], expected one number, not 0",
                                  where, fmt::join(*scale, ", ")));
    }
    result.scale = scale->front();
  }
  const auto per_channel = [&](const std::string& name, std::vector<double>& values, auto valid,
                               std::string_view kind) {
    if (auto found = hdf5::read_reals(root, name, where)) values = std::move(*found);
    const auto count = static_cast<std::int64_t>(values.size());
    if (count != 1 && count != shape[0]) {
      throw DataError(fmt::format("{}: attribute '{}': found {} values, expected 1 or {}", where,
                                  name, count, shape[0]));
    }
    const auto bad = std::ranges::find_if_not(values, valid);
    if (bad != values.end()) {
      throw DataError(fmt::format("{}: attribute '{}': found {}, expected a {} number", where, name,
                                  *bad, kind));
    }
  };
  per_channel(
      "mean", result.mean, [](double v) { return std::isfinite(v); }, "finite");
  per_channel(
      "std", result.std, [](double v) { return std::isfinite(v) && v > 0; }, "positive");
  return result;
}

void check_format(hid_t root, const std::string& path) {
  const auto format = hdf5::read_text(root, "format", path);
  if (format != dataset_format) {
    throw DataError(
        fmt::format("{}: attribute 'format': found {}, expected '{}' (a file made by "
                    "`dataset import`)",
                    path, format ? "'" + *format + "'" : "none", dataset_format));
  }
  const auto version = hdf5::read_integer(root, "version", path);
  if (version != dataset_version) {
    throw DataError(fmt::format("{}: attribute 'version': found {}, expected {}", path,
                                version ? std::to_string(*version) : "none", dataset_version));
  }
}

void read_classes(hid_t root, const std::string& path, DatasetInfo& info) {
  const auto classes = hdf5::read_integer(root, "classes", path);
  if (!classes || *classes < 1) {
    throw DataError(fmt::format("{}: attribute 'classes': found {}, expected an integer >= 1", path,
                                classes ? std::to_string(*classes) : "none"));
  }
  info.classes = *classes;
  info.class_names = hdf5::read_texts(root, "class_names", path).value_or(info.class_names);
  const auto names = static_cast<std::int64_t>(info.class_names.size());
  if (names != 0 && names != info.classes) {
    throw DataError(
        fmt::format("{}: attribute 'class_names': found {} names, expected {} as in "
                    "'classes'",
                    path, names, info.classes));
  }
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
  split.features = open_table(group.get(), "features", where);
  split.labels = open_table(group.get(), "labels", where);

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
    throw DataError(fmt::format("{}: found splits {}, expected '{}'", path, listed(names), name));
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
  read_rows(table, H5T_NATIVE_INT64, first, static_cast<std::int64_t>(labels.size()),
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
  check_format(root, path);
  DatasetInfo& info = impl_->info;
  info.name = hdf5::read_text(root, "name", path).value_or("");
  read_classes(root, path, info);
  for (const std::string& name : member_names(root, path)) impl_->open_split(name);
  if (info.splits.empty()) {
    throw DataError(path + ": found no groups, expected one for each split (/train, /test)");
  }
  info.normalization = read_normalization(root, info.feature_shape, path);
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
    read_rows(impl_->splits[index].features, type, first, rows, features.data());
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
