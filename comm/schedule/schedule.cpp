#include "comm/schedule/schedule.h"

namespace lockstep::comm::schedule {

Steps ring_all_reduce(int rank, int size) {
  if (size == 1) return {};
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  // In step k a rank handles the slice that began k + 1 ranks to its left, so that each slice moves
  // one rank to the right with every step.
  const auto slice = [&](int k) { return (rank + 2 * size - 1 - k) % size; };
  Steps steps;
  steps.reserve(static_cast<std::size_t>(2 * size - 1));
  steps.push_back({Action::send, slice(0), Step::nobody, right});
  for (int k = 1; k < size - 1; ++k)
    steps.push_back({Action::receive_reduce_send, slice(k), left, right});
  steps.push_back({Action::receive_reduce_store_send, slice(size - 1), left, right});
  for (int k = size; k < 2 * size - 2; ++k)
    steps.push_back({Action::receive_store_send, slice(k), left, right});
  steps.push_back({Action::receive_store, slice(2 * size - 2), left, Step::nobody});
  return steps;
}

Steps two_shot_all_reduce(int rank, int) {
  return {{Action::reduce_all_store_all, rank, Step::nobody, Step::nobody}};
}

}  // namespace lockstep::comm::schedule
