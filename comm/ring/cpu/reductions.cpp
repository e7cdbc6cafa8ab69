// all_reduce, reduce and reduce_scatter of RingCommunicator. Whoever reduces an element does so in
// the order of the ranks, so the bits depend neither on the form nor on where the data lies; only
// "ring" has an order of its own.
#include <algorithm>
#include <cstring>

#include "comm/ring/cpu/chunks.h"
#include "comm/ring/cpu/ring_communicator.h"

namespace lockstep::comm::ring {

namespace {

// Up to here every rank reduces everything itself: one round, where sharing the work takes two.
constexpr std::size_t one_shot_limit = 16 << 10;
static_assert(one_shot_limit <= Staging::capacity);

// The part of `count` elements that a rank reduces for all. Unlike slice_of() it is cut between
// cache lines, so that no two ranks write to one.
ByteRange work_share(std::size_t bytes, int rank, int size) {
  constexpr std::size_t line = 64;
  const Slice lines = slice_of(static_cast<std::int64_t>((bytes + line - 1) / line), rank, size);
  const std::size_t begin = std::min(bytes, static_cast<std::size_t>(lines.begin) * line);
  const std::size_t end = std::min(bytes, static_cast<std::size_t>(lines.end) * line);
  return {begin, end - begin};
}

}  // namespace

Algorithm RingCommunicator::choose(const Collective& call) const {
  if (algorithm_ != Algorithm::choose) return algorithm_;
  return call.data.bytes() <= one_shot_limit ? Algorithm::one_shot : Algorithm::two_shot;
}

void RingCommunicator::do_all_reduce(const Collective& asked) {
  Collective call = asked;
  const Algorithm algorithm = choose(call);
  call.signature.algorithm = static_cast<std::uint8_t>(algorithm);
  if (algorithm == Algorithm::one_shot) {
    one_shot(call);
  } else if (algorithm == Algorithm::ring) {
    exchange_.meet(call);
    pipeline_.all_reduce(call);
  } else if (exchange_.meet_in_place(call)) {
    two_shot(call);
  } else {
    staged_two_shot(call);
  }
}

void RingCommunicator::one_shot(const Collective& call) {
  auto* data = static_cast<std::byte*>(call.data.data);
  Begun begun = Begun::no;
  for_each_chunk(call.data.bytes(), Staging::capacity, [&](ByteRange chunk) {
    copy_bytes(staging_.local(), data + chunk.offset, chunk.bytes);
    staged_round(call, begun);
    reduce_range(call, staging_.parts(), 0, {&data, 1}, chunk.offset, chunk.bytes);
    staging_.turn();
  });
}

void RingCommunicator::two_shot(const Collective& call) {
  const ByteRange mine = work_share(call.data.bytes(), rank(), size());
  reduce_range(call, exchange_.all_data(), mine.offset, exchange_.all_data(), mine.offset,
               mine.bytes);
  exchange_.synchronize(call);
}

void RingCommunicator::staged_two_shot(const Collective& call) {
  auto* data = static_cast<std::byte*>(call.data.data);
  for_each_chunk(call.data.bytes(), Staging::capacity, [&](ByteRange chunk) {
    std::byte* here = data + chunk.offset;
    std::byte* own = staging_.local();
    copy_bytes(own, here, chunk.bytes);
    exchange_.synchronize(call);
    const ByteRange mine = work_share(chunk.bytes, rank(), size());
    reduce_range(call, staging_.parts(), mine.offset, {&own, 1}, mine.offset, mine.bytes);
    exchange_.synchronize(call);
    for (int r = 0; r < size(); ++r) {
      const ByteRange share = work_share(chunk.bytes, r, size());
      copy_bytes(here + share.offset, staging_.part(r) + share.offset, share.bytes);
    }
    staging_.turn();
  });
}

void RingCommunicator::do_reduce(const Collective& call) {
  if (call.data.bytes() <= one_shot_limit) {
    staged_reduce(call, Begun::no);
  } else if (!exchange_.meet_in_place(call)) {
    staged_reduce(call, Begun::met);
  } else {
    const ByteRange mine = work_share(call.data.bytes(), rank(), size());
    std::byte* root = exchange_.data(call.signature.root);
    reduce_range(call, exchange_.all_data(), mine.offset, {&root, 1}, mine.offset, mine.bytes);
    exchange_.synchronize(call);
  }
}

void RingCommunicator::staged_reduce(const Collective& call, Begun begun) {
  auto* data = static_cast<std::byte*>(call.data.data);
  for_each_chunk(call.data.bytes(), Staging::capacity, [&](ByteRange chunk) {
    copy_bytes(staging_.local(), data + chunk.offset, chunk.bytes);
    staged_round(call, begun);
    if (rank() == call.signature.root)
      reduce_range(call, staging_.parts(), 0, {&data, 1}, chunk.offset, chunk.bytes);
    staging_.turn();
  });
}

void RingCommunicator::do_reduce_scatter(const Collective& call) {
  if (call.data.bytes() <= one_shot_limit) {
    staged_reduce_scatter(call, Begun::no);
  } else if (!exchange_.meet_in_place(call)) {
    staged_reduce_scatter(call, Begun::met);
  } else {
    const ByteRange mine = slice_bytes(call.data, rank());
    auto* data = static_cast<std::byte*>(call.data.data);
    reduce_range(call, exchange_.all_data(), mine.offset, {&data, 1}, mine.offset, mine.bytes);
    exchange_.synchronize(call);
  }
}

// A chunk holds a piece of every rank's slice, one after the other.
void RingCommunicator::staged_reduce_scatter(const Collective& call, Begun begun) {
  auto* data = static_cast<std::byte*>(call.data.data);
  for_each_chunk(longest_slice_bytes(call.data), slot_bytes(), [&](ByteRange chunk) {
    const auto piece = [&](int r) {
      return piece_of(slice_bytes(call.data, r), chunk.offset, chunk.bytes);
    };
    for (int r = 0; r < size(); ++r)
      copy_bytes(staging_.local() + slot_offset(r), data + piece(r).offset, piece(r).bytes);
    staged_round(call, begun);
    reduce_range(call, staging_.parts(), slot_offset(rank()), {&data, 1}, piece(rank()).offset,
                 piece(rank()).bytes);
    staging_.turn();
  });
}

void RingCommunicator::reduce_range(const Collective& call, std::span<std::byte* const> from,
                                    std::size_t from_offset, std::span<std::byte* const> to,
                                    std::size_t to_offset, std::size_t bytes) {
  if (bytes == 0) return;
  inputs_.clear();
  for (const std::byte* input : from) inputs_.push_back(input + from_offset);
  outputs_.clear();
  for (std::byte* output : to) outputs_.push_back(output + to_offset);
  reduce_to_all(call.data.dtype, call.signature.op, inputs_, outputs_,
                bytes / base::size_of(call.data.dtype));
}

}  // namespace lockstep::comm::ring
