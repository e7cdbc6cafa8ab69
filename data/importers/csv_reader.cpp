#include "data/importers/csv_reader.h"

#include <fmt/format.h>

#include "framework/base/error.h"

namespace lockstep::data {

namespace {

constexpr std::string_view blanks = " \t";
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

}  // namespace

bool CsvReader::next_line() {
  if (!input_.read_line(text_)) return false;
  if (lines_read_++ == 0 && text_.starts_with(byte_order_mark)) {
    text_.erase(0, byte_order_mark.size());
  }
  return true;
}

// Reads a field from its opening quote at `at` up to the delimiter or the end of the line after it.
void CsvReader::read_quoted(std::size_t& at, std::string& field) {
  field.clear();
  for (++at;; ++at) {
    if (at >= text_.size()) {  // the field goes on in the next line
      field += '\n';
      if (!next_line()) {
        throw DataError(fmt::format("{}:{}: found a quote that is never closed", path(), line_));
      }
      at = static_cast<std::size_t>(-1);
    } else if (text_[at] != '"') {
      field += text_[at];
    } else if (at + 1 < text_.size() && text_[at + 1] == '"') {
      field += '"';
      ++at;
    } else {
      break;
    }
  }
  at = std::min(text_.find_first_not_of(blanks, at + 1), text_.size());
  if (at < text_.size() && text_[at] != delimiter_) {
    throw DataError(
        fmt::format("{}:{}: found '{}' after a closing quote, expected '{}' or the end of "
                    "the line",
                    path(), lines_read_, text_[at], delimiter_));
  }
}

void CsvReader::read_plain(std::size_t& at, std::string& field) const {
  const std::size_t end = std::min(text_.find(delimiter_, at), text_.size());
  field.assign(text_, at, end - at);
  field.erase(field.find_last_not_of(blanks) + 1);
  at = end;
}

bool CsvReader::read_row(std::vector<std::string>& fields) {
  do {
    if (!next_line()) return false;
  } while (text_.find_first_not_of(blanks) == std::string::npos);
  line_ = lines_read_;

  std::size_t count = 0;
  for (std::size_t at = 0;; ++at) {
    if (count == fields.size()) fields.emplace_back();
    std::string& field = fields[count++];
    const std::size_t start = std::min(text_.find_first_not_of(blanks, at), text_.size());
    // A delimiter may itself be a blank (tab-separated values).
    at = std::min(start, text_.find(delimiter_, at));
    if (at < text_.size() && text_[at] == '"') {
      read_quoted(at, field);
    } else {
      read_plain(at, field);
    }
    if (at >= text_.size()) break;  // else at a delimiter: one more field follows
  }
  fields.resize(count);
  return true;
}

}  // namespace lockstep::data
