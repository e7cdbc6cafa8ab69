// What ranks put into collectives, and the sums of it.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::comm::ring::cuda {

// Small whole numbers: every order of summation is exact, in 16 bits too.
template <class T>
std::vector<T> whole_numbers(int rank, std::size_t count) {
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i)
    values.emplace_back(static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 29));
  return values;
}

template <class T>
std::vector<T> sums_of_whole_numbers(int ranks, std::size_t count) {
  std::vector<float> sums(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<T> values = whole_numbers<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<float>(values[i]);
  }
  std::vector<T> result;
  for (const float sum : sums) result.emplace_back(sum);
  return result;
}

}  // namespace lockstep::comm::ring::cuda
