#include "framework/kernels/noted_error.h"

#include <fmt/format.h>

#include "framework/base/error.h"

namespace lockstep::kernels {

void throw_noted(std::span<const std::int64_t> words) {
  if (words.size() != NotedError::words)
    throw UsageError(
        fmt::format("throw_noted: found {} words, expected {}", words.size(), NotedError::words));
  const NotedError error{words[0], words[1], words[2], words[3], words[4]};
  if (error.kind == NotedError::target)
    throw_no_class(error.place, error.value, error.limit, error.ignore_index);
  if (error.kind == NotedError::index) throw_no_row(error.place, error.value, error.limit);
}

void throw_no_class(std::int64_t row, std::int64_t target, std::int64_t classes,
                    std::int64_t ignore_index) {
  throw DataError(
      fmt::format("cross_entropy: the target of row {} is {}, expected 0 to {} or {} to ignore it",
                  row, target, classes - 1, ignore_index));
}

void throw_no_row(std::int64_t position, std::int64_t index, std::int64_t rows) {
  throw UsageError(fmt::format("embedding: the index at position {} is {}, expected one in [0, {})",
                               position, index, rows));
}

}  // namespace lockstep::kernels
