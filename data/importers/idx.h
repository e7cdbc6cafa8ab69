// Imports IDX files, the format of MNIST and Fashion-MNIST (http://yann.lecun.com/exdb/mnist/): a
// header with the element type and the extents, then the elements, big-endian, row-major.
#pragma once

#include <string>
#include <vector>

namespace lockstep::data {

struct IdxFiles {
  std::string train_features;
  std::string train_labels;
  std::string test_features;  // empty, with test_labels: no test split
  std::string test_labels;
};

// The four files with MNIST's names in `folder`, each plain or with ".gz". Throws DataError naming
// the missing one.
IdxFiles idx_files_in(const std::string& folder);

struct IdxOptions {
  std::string out;                       // the data set file to write
  std::string name;                      // of the set
  std::vector<std::string> class_names;  // empty: those known for `name`, or none
};

// Features of uint8 or float32 [N, ...]; images [N, height, width] get a channel axis: [N, 1,
// height, width]. uint8 features are scaled by 1/255; mean and standard deviation are those of the
// train split, per channel. Labels are uint8; classes are counted from the names or else from the
// largest label of the train split. Errors are DataError with the file, what was found and what was
// expected.
void import_idx(const IdxFiles& files, const IdxOptions& options);

}  // namespace lockstep::data
