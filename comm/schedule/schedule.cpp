#include "comm/schedule/schedule.h"

#include <bit>

namespace lockstep::comm::schedule {

std::string_view name_of(Action action) {
  switch (action) {
    case Action::send:
      return "send";
    case Action::receive_reduce_send:
      return "receive_reduce_send";
    case Action::receive_reduce_store_send:
      return "receive_reduce_store_send";
    case Action::send_complete:
      return "send_complete";
    case Action::receive_store_send:
      return "receive_store_send";
    case Action::receive_store:
      return "receive_store";
    case Action::receive_reduce_store:
      return "receive_reduce_store";
    case Action::reduce_from:
      return "reduce_from";
    case Action::reduce_complete_from:
      return "reduce_complete_from";
    case Action::store_from:
      return "store_from";
    case Action::reduce_all_store:
      return "reduce_all_store";
    case Action::reduce_all_store_all:
      return "reduce_all_store_all";
  }
  __builtin_unreachable();
}

namespace {

// A rank's neighbours on the ring.
struct Neighbours {
  int left, right;
  Neighbours(int rank, int size) : left((rank + size - 1) % size), right((rank + 1) % size) {}

  Step send(Action action, int slice = 0) const { return {action, slice, Step::nobody, right}; }
  Step pass(Action action, int slice = 0) const { return {action, slice, left, right}; }
  Step receive(Action action, int slice = 0) const { return {action, slice, left, Step::nobody}; }
};

// The slice that began k ranks to the left of `rank`.
int slice_from(int rank, int size, int k) {
  return (rank + 2 * size - k) % size;
}

}  // namespace

// In step k a rank handles the slice that began k + 1 ranks to its left, so that each slice moves
// one rank to the right with every step.
Schedule ring_all_reduce(int rank, int size) {
  if (size == 1) return {};
  const Neighbours ring(rank, size);
  const auto slice = [&](int k) { return slice_from(rank, size, k + 1); };
  Steps steps;
  steps.reserve(static_cast<std::size_t>(2 * size - 1));
  steps.push_back(ring.send(Action::send, slice(0)));
  for (int k = 1; k < size - 1; ++k)
    steps.push_back(ring.pass(Action::receive_reduce_send, slice(k)));
  steps.push_back(ring.pass(Action::receive_reduce_store_send, slice(size - 1)));
  for (int k = size; k < 2 * size - 2; ++k)
    steps.push_back(ring.pass(Action::receive_store_send, slice(k)));
  steps.push_back(ring.receive(Action::receive_store, slice(2 * size - 2)));
  return {size, std::move(steps)};
}

Schedule ring_reduce_scatter(int rank, int size) {
  if (size == 1) return {};
  const Neighbours ring(rank, size);
  Steps steps = {ring.send(Action::send, slice_from(rank, size, 1))};
  for (int k = 1; k < size - 1; ++k)
    steps.push_back(ring.pass(Action::receive_reduce_send, slice_from(rank, size, k + 1)));
  steps.push_back(ring.receive(Action::receive_reduce_store, rank));
  return {size, std::move(steps)};
}

Schedule ring_all_gather(int rank, int size) {
  if (size == 1) return {};
  const Neighbours ring(rank, size);
  Steps steps = {ring.send(Action::send_complete, rank)};
  for (int k = 1; k < size - 1; ++k)
    steps.push_back(ring.pass(Action::receive_store_send, slice_from(rank, size, k)));
  steps.push_back(ring.receive(Action::receive_store, slice_from(rank, size, size - 1)));
  return {size, std::move(steps)};
}

Schedule ring_broadcast(int rank, int size, int root) {
  if (size == 1) return {};
  const Neighbours ring(rank, size);
  const int place = (rank - root + size) % size;
  if (place == 0) return {1, {ring.send(Action::send_complete)}};
  if (place + 1 == size) return {1, {ring.receive(Action::receive_store)}};
  return {1, {ring.pass(Action::receive_store_send)}};
}

Schedule ring_reduce(int rank, int size, int root) {
  if (size == 1) return {};
  const Neighbours ring(rank, size);
  const int place = (rank - root - 1 + size) % size;
  if (place == 0) return {1, {ring.send(Action::send)}};
  if (place + 1 == size) return {1, {ring.receive(Action::receive_reduce_store)}};
  return {1, {ring.pass(Action::receive_reduce_send)}};
}

Schedule two_shot_all_reduce(int rank, int size) {
  return {size, {{Action::reduce_all_store_all, rank}}};
}

Schedule one_shot_all_reduce(int, int) {
  return {1, {{Action::reduce_all_store}}};
}

namespace {

// The ranks of a recursive halving: `halvings` times, after `extra` pairs have folded. Those that
// go on are numbered anew from 0 ("places"), in the order of the ranks.
struct Fold {
  int halvings, extra;
  explicit Fold(int size)
      : halvings(static_cast<int>(std::bit_width(static_cast<unsigned>(size))) - 1),
        extra(size - (1 << halvings)) {}
  bool is_folded(int rank) const { return rank < 2 * extra; }
  int place(int rank) const { return is_folded(rank) ? rank / 2 : rank - extra; }
  int rank_at(int place) const { return place < extra ? 2 * place : place + extra; }
  // Steps of `rank` before the first halving.
  int begin(int rank) const { return is_folded(rank) ? 1 : 0; }
};

// The slices that `place` is left with after `level` halvings: [first, first + count).
struct Block {
  int first, count;
};
Block block_of(int place, int level, int halvings) {
  Block block{0, 1 << halvings};
  for (int i = 0; i < level; ++i) {
    block.count /= 2;
    if (((place >> i) & 1) != 0) block.first += block.count;
  }
  return block;
}

}  // namespace

Schedule halving_doubling_all_reduce(int rank, int size) {
  const Fold fold(size);
  const int halvings = fold.halvings, slices = 1 << halvings, place = fold.place(rank);
  const int all_done = 2 * halvings;
  Steps steps;
  const auto read = [&](Action action, Block block, int from, int after) {
    steps.push_back({action, block.first, from, Step::nobody, block.count, after});
  };
  if (fold.is_folded(rank)) {
    if (rank % 2 == 1) {
      read(Action::store_from, {0, slices}, rank - 1, 1 + all_done);
      return {slices, std::move(steps)};
    }
    read(halvings == 0 ? Action::reduce_complete_from : Action::reduce_from, {0, slices}, rank + 1,
         0);
  }
  for (int level = 0; level < halvings; ++level) {
    const int partner = fold.rank_at(place ^ (1 << level));
    read(level + 1 == halvings ? Action::reduce_complete_from : Action::reduce_from,
         block_of(place, level + 1, halvings), partner, fold.begin(partner) + level);
  }
  for (int level = halvings - 1; level >= 0; --level) {
    const int other = place ^ (1 << level), partner = fold.rank_at(other);
    read(Action::store_from, block_of(other, level + 1, halvings), partner,
         fold.begin(partner) + all_done - 1 - level);
  }
  return {slices, std::move(steps)};
}

Schedule reduce_broadcast_all_reduce(int rank, int size) {
  Steps steps;
  if (rank > 0) {
    steps.push_back({Action::store_from, 0, 0, Step::nobody, 1, size - 1});
  } else {
    for (int r = 1; r < size; ++r)
      steps.push_back({r + 1 == size ? Action::reduce_complete_from : Action::reduce_from, 0, r});
  }
  return {1, std::move(steps)};
}

}  // namespace lockstep::comm::schedule
