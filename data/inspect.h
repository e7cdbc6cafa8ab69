// What `dataset inspect` and `dataset verify` tell about a file.
#pragma once

#include <string>
#include <vector>

#include "data/dataset_file.h"

namespace lockstep::data {

// A few lines for a reader: features, classes with their number of samples, normalisation, splits.
// Reads all labels.
std::string describe(const DatasetFile& file);

// One line, for logs: "60000 train and 10000 test samples of uint8 [1, 28, 28], 10 classes".
std::string summary(const DatasetInfo& info);

// Reads every row and checks labels and, where there are any, checksums. Returns a message for each
// block that is damaged; empty when all is well.
std::vector<std::string> find_damage(const DatasetFile& file);

}  // namespace lockstep::data
