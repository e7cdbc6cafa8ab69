// CsvReader: the rows of a CSV file (RFC 4180: quoted fields may hold delimiters, line ends and
// doubled quotes), plain or compressed by gzip. Blank lines are skipped; blanks around an unquoted
// field too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/importers/input.h"

namespace lockstep::data {

class CsvReader {
 public:
  CsvReader(const std::string& path, char delimiter) : input_(path), delimiter_(delimiter) {}

  // The next row; false at the end. `fields` keeps its memory. Throws DataError with the line.
  bool read_row(std::vector<std::string>& fields);
  // Where the row read last begins, counted from 1.
  std::int64_t line() const { return line_; }
  const std::string& path() const { return input_.path(); }

 private:
  bool next_line();
  void read_quoted(std::size_t& at, std::string& field);
  void read_plain(std::size_t& at, std::string& field) const;

  Input input_;
  char delimiter_;
  std::string text_;  // the line being read
  std::int64_t line_ = 0;
  std::int64_t lines_read_ = 0;
};

}  // namespace lockstep::data
