#include "data/dataset_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>

#include "data/block_checksum.h"
#include "data/dataset_header.h"
#include "data/partial_file.h"
#include "framework/base/error.h"

namespace lockstep::data {

namespace {

using hdf5::check;
using hdf5::Handle;

constexpr std::int64_t default_chunk_bytes = std::int64_t{1} << 20;
constexpr std::int64_t label_chunk_rows = 8192;  // 64 KiB

// A dataset that grows along its first axis.
class GrowingTable {
 public:
  GrowingTable(hid_t group, const std::string& name, hid_t type, std::int64_t chunk_rows,
               std::span<const std::int64_t> row_extents, std::string where)
      : type_(type), where_(std::move(where)) {
    extents_.push_back(0);
    extents_.insert(extents_.end(), row_extents.begin(), row_extents.end());
    std::vector<hsize_t> limits = extents_;
    std::vector<hsize_t> chunk = extents_;
    limits[0] = H5S_UNLIMITED;
    chunk[0] = static_cast<hsize_t>(chunk_rows);
    const auto rank = static_cast<int>(extents_.size());
    const Handle space(H5Screate_simple(rank, extents_.data(), limits.data()), H5Sclose, where_);
    const Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, where_);
    check(H5Pset_chunk(layout.get(), rank, chunk.data()), where_);
    check(H5Pset_obj_track_times(layout.get(), false), where_);  // equal input gives equal files
    dataset_ = Handle(
        H5Dcreate2(group, name.c_str(), type, space.get(), H5P_DEFAULT, layout.get(), H5P_DEFAULT),
        H5Dclose, where_);
  }

  void append(const void* rows, std::size_t count) {
    std::vector<hsize_t> start(extents_.size(), 0);
    std::vector<hsize_t> block = extents_;
    start[0] = extents_[0];
    block[0] = count;
    extents_[0] += count;
    check(H5Dset_extent(dataset_.get(), extents_.data()), where_);
    const Handle file_space(H5Dget_space(dataset_.get()), H5Sclose, where_);
    check(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, block.data(),
                              nullptr),
          where_);
    const Handle memory_space(
        H5Screate_simple(static_cast<int>(block.size()), block.data(), nullptr), H5Sclose, where_);
    check(H5Dwrite(dataset_.get(), type_, memory_space.get(), file_space.get(), H5P_DEFAULT, rows),
          where_ + ": cannot be written");
  }

 private:
  hid_t type_;  // one of the library's own, which are never closed
  std::string where_;
  std::vector<hsize_t> extents_;
  Handle dataset_;
};

hid_t hdf5_type(DType dtype) {
  return dtype == DType::uint8 ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT;
}

[[noreturn]] void fail_with_errno(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

// Makes what was written to a file, or a folder's list of names, survive a crash of the machine.
void flush_to_disk(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_with_errno(path, "cannot be opened to flush it");
  const int result = fsync(descriptor);
  close(descriptor);
  if (result != 0) fail_with_errno(path, "cannot be flushed to disk");
}

void check_description(const std::string& path, const DatasetInfo& info) {
  if (info.dtype != DType::uint8 && info.dtype != DType::float32) {
    throw UsageError(fmt::format("{}: features of type {}, expected uint8 or float32", path,
                                 base::name_of(info.dtype)));
  }
  const auto names = static_cast<std::int64_t>(info.class_names.size());
  if (info.classes < 1 || (names != 0 && names != info.classes)) {
    throw UsageError(
        fmt::format("{}: {} classes with {} names, expected at least one class and a "
                    "name for each or for none",
                    path, info.classes, names));
  }
  if (info.feature_shape.rank() < 1 || info.feature_shape.count() < 1) {
    throw UsageError(fmt::format("{}: samples of shape {}, expected at least one element", path,
                                 to_string(info.feature_shape)));
  }
}

}  // namespace

struct DatasetWriter::Impl {
  // One split: whole chunks go to the file, the rest of a chunk waits here.
  struct Split {
    std::string name;
    Handle group;
    GrowingTable features;
    GrowingTable labels;
    std::vector<std::uint64_t> checksums;
    std::vector<std::byte> pending_features;
    std::vector<std::int64_t> pending_labels;

    void write_pending() {
      if (pending_labels.empty()) return;
      features.append(pending_features.data(), pending_labels.size());
      labels.append(pending_labels.data(), pending_labels.size());
      checksums.push_back(block_checksum(pending_features, pending_labels));
      pending_features.clear();
      pending_labels.clear();
    }
  };

  std::string path;
  std::string partial_path;
  DatasetInfo info;
  std::int64_t chunk_rows = 1;
  Handle file;
  std::deque<Split> splits;

  ~Impl();
  Split& split(std::string_view name);
  void write_checksums(const Split& split);
};

DatasetWriter::Impl::~Impl() {
  splits.clear();
  file.reset();
  std::error_code ignored;
  if (!partial_path.empty()) std::filesystem::remove(partial_path, ignored);
}

DatasetWriter::Impl::Split& DatasetWriter::Impl::split(std::string_view name) {
  const auto found = std::ranges::find(splits, name, &Split::name);
  if (found != splits.end()) return *found;
  const std::string text(name);
  const std::string where = path + ": /" + text;
  Handle group(H5Gcreate2(file.get(), text.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
               H5Gclose, where);
  GrowingTable features(group.get(), "features", hdf5_type(info.dtype), chunk_rows,
                        info.feature_shape.extents(), where + "/features");
  GrowingTable labels(group.get(), "labels", H5T_NATIVE_INT64, label_chunk_rows, {},
                      where + "/labels");
  splits.push_back({text, std::move(group), std::move(features), std::move(labels), {}, {}, {}});
  return splits.back();
}

void DatasetWriter::Impl::write_checksums(const Split& split) {
  const std::string where = fmt::format("{}: /{}/{}", path, split.name, checksums_name);
  const hsize_t count = split.checksums.size();
  const Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose, where);
  const Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, where);
  check(H5Pset_obj_track_times(layout.get(), false), where);
  const Handle dataset(
      H5Dcreate2(split.group.get(), std::string(checksums_name).c_str(), H5T_NATIVE_UINT64,
                 space.get(), H5P_DEFAULT, layout.get(), H5P_DEFAULT),
      H5Dclose, where);
  if (count == 0) return;
  check(H5Dwrite(dataset.get(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                 split.checksums.data()),
        where);
}

DatasetWriter::DatasetWriter(const std::string& path, DatasetInfo info, std::int64_t chunk_rows)
    : impl_(std::make_unique<Impl>()) {
  check_description(path, info);
  const auto row_bytes = static_cast<std::int64_t>(info.row_bytes());
  impl_->path = path;
  impl_->info = std::move(info);
  impl_->chunk_rows =
      chunk_rows > 0 ? chunk_rows : std::max<std::int64_t>(1, default_chunk_bytes / row_bytes);

  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw DataError(fmt::format("{}: {}", folder.string(), error.message()));

  const auto guard = hdf5::lock();
  remove_stale_partials(path);
  const std::string partial = partial_name(path);
  impl_->file = Handle(H5Fcreate(partial.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                       H5Fclose, partial + ": cannot be created");
  impl_->partial_path = partial;
}

DatasetWriter::~DatasetWriter() = default;

void DatasetWriter::add_split(std::string_view split) {
  const auto guard = hdf5::lock();
  impl_->split(split);
}

void DatasetWriter::append(std::string_view name, std::span<const std::byte> features,
                           std::span<const std::int64_t> labels) {
  const std::size_t row_bytes = impl_->info.row_bytes();
  if (features.size() != labels.size() * row_bytes) {
    throw UsageError(fmt::format("{} bytes given for {} rows of {} bytes", features.size(),
                                 labels.size(), row_bytes));
  }
  for (const std::int64_t label : labels) {
    if (label < 0 || label >= impl_->info.classes) {
      throw DataError(fmt::format("{}: /{}: label {}, expected 0 to {}", impl_->path, name, label,
                                  impl_->info.classes - 1));
    }
  }
  const auto guard = hdf5::lock();
  Impl::Split& split = impl_->split(name);
  const auto chunk_rows = static_cast<std::size_t>(impl_->chunk_rows);
  while (!labels.empty()) {
    const std::size_t rows = std::min(labels.size(), chunk_rows - split.pending_labels.size());
    const auto bytes = features.first(rows * row_bytes);
    const auto values = labels.first(rows);
    split.pending_features.insert(split.pending_features.end(), bytes.begin(), bytes.end());
    split.pending_labels.insert(split.pending_labels.end(), values.begin(), values.end());
    if (split.pending_labels.size() == chunk_rows) split.write_pending();
    features = features.subspan(rows * row_bytes);
    labels = labels.subspan(rows);
  }
}

void DatasetWriter::set_normalization(Normalization normalization) {
  impl_->info.normalization = std::move(normalization);
}

void DatasetWriter::finish() {
  check_normalization(impl_->path, impl_->info);
  const auto guard = hdf5::lock();
  for (Impl::Split& split : impl_->splits) {
    split.write_pending();
    impl_->write_checksums(split);
  }
  write_header(impl_->file.get(), impl_->path, impl_->info);
  impl_->splits.clear();
  check(H5Fflush(impl_->file.get(), H5F_SCOPE_GLOBAL), impl_->path + ": cannot be written");
  impl_->file.close(impl_->path + ": cannot be closed");

  flush_to_disk(impl_->partial_path);
  if (std::rename(impl_->partial_path.c_str(), impl_->path.c_str()) != 0) {
    fail_with_errno(impl_->path, "cannot be put in place");
  }
  impl_->partial_path.clear();
  const std::filesystem::path folder = std::filesystem::path(impl_->path).parent_path();
  flush_to_disk(folder.empty() ? "." : folder.string());
}

}  // namespace lockstep::data
