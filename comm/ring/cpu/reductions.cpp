// all_reduce, reduce and reduce_scatter of RingCommunicator. Whoever reduces an element does so in
// the order of the ranks, so the bits depend neither on the form nor on where the data lies; only
// "ring" and "halving_doubling" have orders of their own.
#include <algorithm>
#include <cstring>

#include "comm/ring/cpu/chunks.h"
#include "comm/ring/cpu/ring_communicator.h"

namespace lockstep::comm::ring {

namespace {

// Up to here reduce and reduce_scatter take one round, each rank reducing from copies what it
// needs, where reading in place takes two.
constexpr std::size_t staged_limit = 16 << 10;
static_assert(staged_limit <= Staging::capacity);

// Up to here, over all ranks, and where these outnumber the cores, waking every rank for its share
// takes longer than one of them needs for the whole.
constexpr std::size_t lone_limit = 2 << 20;

// Shares are worked off in pieces, by whoever is free.
constexpr std::size_t piece_of_work = 128 << 10;

// The part of `bytes` that a rank reduces for all. Unlike slice_of() it is cut between
// cache lines, so that no two ranks write to one.
ByteRange work_share(std::size_t bytes, int rank, int size) {
  constexpr std::size_t line = 64;
  const Slice lines = slice_of(static_cast<std::int64_t>((bytes + line - 1) / line), rank, size);
  const std::size_t begin = std::min(bytes, static_cast<std::size_t>(lines.begin) * line);
  const std::size_t end = std::min(bytes, static_cast<std::size_t>(lines.end) * line);
  return {begin, end - begin};
}

}  // namespace

void RingCommunicator::do_all_reduce(const Collective& asked) {
  Collective call = asked;
  const Algorithm algorithm = table_.choose(call.data.bytes());
  call.signature.algorithm = static_cast<std::uint8_t>(algorithm);
  switch (algorithm) {
    case Algorithm::one_shot:
      return one_shot(call);
    case Algorithm::ring:
      exchange_.meet(call);
      return pipeline_.all_reduce(call);
    case Algorithm::halving_doubling:
      return by_peer_steps(call, halving_doubling_);
    case Algorithm::reduce_broadcast:
      return by_peer_steps(call, reduce_broadcast_);
    case Algorithm::two_shot:
      return two_shot(call);
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
  if (call.data.bytes() > Staging::capacity && exchange_.meet_in_place(call)) {
    share_reduction(call, exchange_.all_data());
    exchange_.synchronize(call);
    return;
  }
  for_each_chunk(call.data.bytes(), Staging::capacity,
                 [&](ByteRange chunk) { two_shot(call, chunk); });
}

// A rank whose data cannot be addressed offers a copy in the staging memory instead.
void RingCommunicator::two_shot(const Collective& call, ByteRange chunk) {
  std::byte* data = static_cast<std::byte*>(call.data.data) + chunk.offset;
  Collective part = call;
  part.data = {data, static_cast<std::int64_t>(chunk.bytes / base::size_of(call.data.dtype)),
               call.data.dtype};
  const bool is_staged = !exchange_.can_address(part.data);
  if (is_staged) {
    part.data.data = staging_.local();
    copy_bytes(part.data.data, data, chunk.bytes);
  }
  if (exchange_.is_crowded() && chunk.bytes * static_cast<std::size_t>(size()) <= lone_limit) {
    exchange_.meet_and_let_one_work(part, [&] {
      reduce_range(part, exchange_.all_data(), 0, exchange_.all_data(), 0, chunk.bytes);
    });
  } else {
    exchange_.meet_in_place(part);
    share_reduction(part, exchange_.all_data());
    exchange_.synchronize(part);
  }
  if (is_staged) copy_bytes(data, part.data.data, chunk.bytes);
  staging_.turn();
}

// Each rank begins with its own share and goes on with what the ranks behind it have not come to:
// with more ranks than cores some are still asleep when the others are done.
void RingCommunicator::share_reduction(const Collective& call, std::span<std::byte* const> to) {
  for (int k = 0; k < size(); ++k) {
    const int owner = (rank() + k) % size();
    const ByteRange share = work_share(call.data.bytes(), owner, size());
    for (;;) {
      const std::size_t begin = exchange_.take_piece(owner) * piece_of_work;
      if (begin >= share.bytes) break;
      const ByteRange piece = piece_of(share, begin, piece_of_work);
      reduce_range(call, exchange_.all_data(), piece.offset, to, piece.offset, piece.bytes);
    }
  }
}

// In place where peers reach the data and partials need no wider type.
void RingCommunicator::by_peer_steps(const Collective& call, PeerSteps& steps) {
  const std::size_t element = base::size_of(call.data.dtype);
  if (call.data.bytes() <= Staging::capacity ||
      accumulator_of(call.data.dtype) != call.data.dtype) {
    staged_by_peer_steps(call, steps, Begun::no);
  } else if (!exchange_.meet_in_place(call)) {
    staged_by_peer_steps(call, steps, Begun::met);
  } else {
    for_each_chunk(call.data.bytes(), Staging::capacity, [&](ByteRange chunk) {
      steps.run(call, call.data.dtype, exchange_.all_data(), chunk.offset,
                static_cast<std::int64_t>(chunk.bytes / element));
    });
    exchange_.synchronize(call);
  }
}

void RingCommunicator::staged_by_peer_steps(const Collective& call, PeerSteps& steps, Begun begun) {
  const DType partial = accumulator_of(call.data.dtype);
  // The average is taken on the way; what is left to do is to round.
  const StepKernels& kernels = step_kernels(call.data.dtype, ReduceOp::sum);
  const std::size_t most = Staging::capacity / kernels.accumulator_bytes * kernels.element_bytes;
  auto* data = static_cast<std::byte*>(call.data.data);
  for_each_chunk(call.data.bytes(), most, [&](ByteRange chunk) {
    const std::size_t count = chunk.bytes / kernels.element_bytes;
    kernels.load(staging_.local(), data + chunk.offset, count);
    staged_round(call, begun);
    steps.run(call, partial, staging_.parts(), 0, static_cast<std::int64_t>(count));
    kernels.finish(data + chunk.offset, staging_.local(), count, size());
    staging_.turn();
  });
}

void RingCommunicator::do_reduce(const Collective& call) {
  if (call.data.bytes() <= staged_limit) {
    staged_reduce(call, Begun::no);
  } else if (!exchange_.meet_in_place(call)) {
    staged_reduce(call, Begun::met);
  } else {
    std::byte* const root = exchange_.data(call.signature.root);
    share_reduction(call, {&root, 1});
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
  if (call.data.bytes() <= staged_limit) {
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
