// The attributes of a data set file's root group. Private to this folder; callers hold
// hdf5::lock().
#pragma once

#include <string>

#include "data/dataset_file.h"
#include "data/hdf5.h"

namespace lockstep::data {

// Reads format, version, name, classes and normalisation into `info`. Throws DataError naming the
// attribute, what was found and what was expected.
void read_header(hid_t root, const std::string& path, DatasetInfo& info);
// Whether the normalisation fits the shape of the features; throws DataError.
void check_normalization(const std::string& path, const DatasetInfo& info);
void write_header(hid_t root, const std::string& path, const DatasetInfo& info);

}  // namespace lockstep::data
