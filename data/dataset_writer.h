// DatasetWriter: writes a data set file, layout version 1 (docs/dataset_format.md), as a stream of
// rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/dataset_file.h"

namespace lockstep::data {

// The file appears under its name only when finish() has returned: rows go to a temporary file
// beside it, which is flushed to disk and renamed. Without finish() the destructor removes the
// temporary file. Errors are DataError naming the file. Used by one thread at a time.
class DatasetWriter {
 public:
  // Of `info`: name, dtype, feature_shape, classes, class_names and normalization. Missing folders
  // of `path` are created. `chunk_rows` of 0 stands for about 1 MiB of rows.
  DatasetWriter(const std::string& path, DatasetInfo info, std::int64_t chunk_rows = 0);
  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  // Starts a split that may stay empty; append() starts one too.
  void add_split(std::string_view split);
  // Any number of rows, in file order; labels.size() rows of features in the stored type.
  void append(std::string_view split, std::span<const std::byte> features,
              std::span<const std::int64_t> labels);
  // Of the finished file, in place of the one given at the start.
  void set_normalization(Normalization normalization);
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
