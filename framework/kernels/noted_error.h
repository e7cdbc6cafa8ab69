// A value that a kernel of a GPU could not use, as it notes it in device memory for the host. Host
// and device code share it.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::kernels {

struct NotedError {
  static constexpr std::int64_t none = 0;
  static constexpr std::int64_t target = 1;  // of cross-entropy
  static constexpr std::int64_t index = 2;   // of an embedding

  std::int64_t kind = none;
  std::int64_t place = 0;  // row or position, the first of its kernel
  std::int64_t value = 0;
  std::int64_t limit = 0;  // expected: at least 0 and below this
  std::int64_t ignore_index = 0;

  static constexpr std::size_t words = 5;
};
static_assert(sizeof(NotedError) == NotedError::words * sizeof(std::int64_t));

// Throws what `words`, NotedError::words of them as read from the device, note: DataError or
// UsageError naming place, value and what was expected. Returns where they note nothing.
void throw_noted(std::span<const std::int64_t> words);

// The same errors for kernels that throw at once.
[[noreturn]] void throw_no_class(std::int64_t row, std::int64_t target, std::int64_t classes,
                                 std::int64_t ignore_index);
[[noreturn]] void throw_no_row(std::int64_t position, std::int64_t index, std::int64_t rows);

}  // namespace lockstep::kernels
