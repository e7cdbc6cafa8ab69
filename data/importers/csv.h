// Imports tables from CSV files: one column of labels, all others numeric features.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

enum class CsvHeader : std::uint8_t {
  automatic,  // the first row is a header when none of its fields is a number
  present,
  absent,
};

struct CsvOptions {
  std::string file;
  // The test split: a file of its own, or a fraction in [0, 1) of the rows, drawn by `seed`; else
  // none.
  std::string test_file;
  double test_fraction = 0;
  std::uint64_t seed = 0;

  CsvHeader header = CsvHeader::automatic;
  char delimiter = ',';
  // The column of the labels: its name, or its number counted from 1; empty: the last one.
  std::string label;
  // Labels are these names, or numbers below their count. Empty: numbers from 0 where all labels
  // are whole numbers, otherwise names, in alphabetical order.
  std::vector<std::string> class_names;

  std::string out;   // the data set file to write
  std::string name;  // of the set
};

// Features become float32 [N, columns - 1], normalised per column to mean 0 and standard deviation
// 1 of the train split. Reads the file twice, so memory does not grow with it. Errors are DataError
// with file, line and column (both counted from 1), what was found and what was expected.
void import_csv(const CsvOptions& options);

}  // namespace lockstep::data
