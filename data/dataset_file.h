// DatasetFile: a data set file, layout version 1 (docs/dataset_format.md), open for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/base/shape.h"

namespace lockstep::data {

inline constexpr std::string_view dataset_format = "lockstep-dataset";
inline constexpr std::int64_t dataset_version = 1;

// What a model sees of a stored value x of channel c: (x * scale - mean[c]) / std[c]. `mean` and
// `std` hold one value for all elements, or one for each index of the first feature axis (the
// channels of an image, the columns of a table).
struct Normalization {
  double scale = 1;
  std::vector<double> mean = {0};
  std::vector<double> std = {1};
  bool operator==(const Normalization&) const = default;
};

struct SplitInfo {
  std::string name;             // "train", "test"
  std::int64_t samples = 0;     // may be 0
  std::int64_t chunk_rows = 1;  // rows of a chunk of features in the file
  std::int64_t block_rows = 1;  // the unit of reading: whole chunks, about 1 MiB or more
  bool has_checksums = false;   // one for each chunk

  std::int64_t blocks() const { return (samples + block_rows - 1) / block_rows; }
};

struct DatasetInfo {
  std::string name;                      // may be empty
  DType dtype = DType::uint8;            // of the stored features: uint8 or float32
  Shape feature_shape;                   // of one sample
  std::int64_t classes = 0;              // labels are in [0, classes)
  std::vector<std::string> class_names;  // as many as classes, or empty
  Normalization normalization;
  std::vector<SplitInfo> splits;

  std::size_t row_bytes() const {
    return static_cast<std::size_t>(feature_shape.count()) * base::size_of(dtype);
  }
};

// All errors are DataError, with the file, the dataset or attribute, what was found and what was
// expected. The constructor checks everything but the rows themselves; reading checks those.
//
// Thread-safe: HDF5 calls of a process go one at a time (see hdf5.h). A file is opened by the
// process that reads it and is never inherited; it is closed by the destructor, also when an error
// ends it.
class DatasetFile {
 public:
  explicit DatasetFile(const std::string& path);
  ~DatasetFile();
  DatasetFile(DatasetFile&&) noexcept;
  DatasetFile& operator=(DatasetFile&&) noexcept;

  const std::string& path() const;
  const DatasetInfo& info() const;
  const SplitInfo& split(std::string_view name) const;  // the error lists the splits there are

  // Reads rows [first, first + labels.size()) of a split. `features` takes row_bytes() for each
  // row, in the stored type. Labels outside [0, classes) are an error. Where the file has checksums
  // and `verify` is set, every chunk that lies wholly in the range is checked.
  void read(std::string_view split, std::int64_t first, std::span<std::byte> features,
            std::span<std::int64_t> labels, bool verify = true) const;
  // The labels alone.
  void read_labels(std::string_view split, std::int64_t first,
                   std::span<std::int64_t> labels) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
