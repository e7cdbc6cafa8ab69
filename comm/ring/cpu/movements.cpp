// broadcast, all_gather and all_to_all of RingCommunicator: collectives that only move data.
#include "comm/ring/cpu/chunks.h"
#include "comm/ring/cpu/ring_communicator.h"

namespace lockstep::comm::ring {

namespace {

// Up to here a second copy costs less than the closing round of the direct form.
constexpr std::size_t staged_limit = 64 << 10;

}  // namespace

void RingCommunicator::do_broadcast(const Collective& call) {
  if (call.data.bytes() <= staged_limit) {
    staged_broadcast(call, Begun::no);
  } else if (!exchange_.meet_in_place(call)) {
    staged_broadcast(call, Begun::met);
  } else {
    if (rank() != call.signature.root)
      copy_bytes(call.data.data, exchange_.data(call.signature.root), call.data.bytes());
    exchange_.synchronize(call);
  }
}

void RingCommunicator::staged_broadcast(const Collective& call, Begun begun) {
  const int root = call.signature.root;
  auto* data = static_cast<std::byte*>(call.data.data);
  for_each_chunk(call.data.bytes(), Staging::capacity, [&](ByteRange chunk) {
    if (rank() == root) copy_bytes(staging_.local(), data + chunk.offset, chunk.bytes);
    staged_round(call, begun);
    if (rank() != root) copy_bytes(data + chunk.offset, staging_.part(root), chunk.bytes);
    staging_.turn();
  });
}

void RingCommunicator::do_all_gather(const Collective& call) {
  if (call.data.bytes() <= staged_limit) {
    staged_all_gather(call, Begun::no);
  } else if (!exchange_.meet_in_place(call)) {
    staged_all_gather(call, Begun::met);
  } else {
    auto* data = static_cast<std::byte*>(call.data.data);
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const ByteRange slice = slice_bytes(call.data, r);
      copy_bytes(data + slice.offset, exchange_.data(r) + slice.offset, slice.bytes);
    }
    exchange_.synchronize(call);
  }
}

void RingCommunicator::staged_all_gather(const Collective& call, Begun begun) {
  auto* data = static_cast<std::byte*>(call.data.data);
  for_each_chunk(longest_slice_bytes(call.data), Staging::capacity, [&](ByteRange chunk) {
    const auto piece = [&](int r) {
      return piece_of(slice_bytes(call.data, r), chunk.offset, chunk.bytes);
    };
    copy_bytes(staging_.local(), data + piece(rank()).offset, piece(rank()).bytes);
    staged_round(call, begun);
    for (int r = 0; r < size(); ++r)
      if (r != rank()) copy_bytes(data + piece(r).offset, staging_.part(r), piece(r).bytes);
    staging_.turn();
  });
}

void RingCommunicator::do_all_to_all(const Collective& call) {
  if (call.data.bytes() <= staged_limit) {
    staged_all_to_all(call, Begun::no);
  } else if (!exchange_.meet_in_place(call)) {
    staged_all_to_all(call, Begun::met);
  } else {
    auto* receive = static_cast<std::byte*>(call.receive.data);
    const ByteRange mine = slice_bytes(call.data, rank());
    for (int r = 0; r < size(); ++r)
      copy_bytes(receive + slice_bytes(call.data, r).offset, exchange_.data(r) + mine.offset,
                 mine.bytes);
    exchange_.synchronize(call);
  }
}

// A chunk holds a piece of what goes to each rank, one after the other.
void RingCommunicator::staged_all_to_all(const Collective& call, Begun begun) {
  const auto* send = static_cast<const std::byte*>(call.data.data);
  auto* receive = static_cast<std::byte*>(call.receive.data);
  for_each_chunk(longest_slice_bytes(call.data), slot_bytes(), [&](ByteRange chunk) {
    const auto piece = [&](int r) {
      return piece_of(slice_bytes(call.data, r), chunk.offset, chunk.bytes);
    };
    for (int r = 0; r < size(); ++r)
      copy_bytes(staging_.local() + slot_offset(r), send + piece(r).offset, piece(r).bytes);
    staged_round(call, begun);
    for (int r = 0; r < size(); ++r)
      copy_bytes(receive + piece(r).offset, staging_.part(r) + slot_offset(rank()), piece(r).bytes);
    staging_.turn();
  });
}

}  // namespace lockstep::comm::ring
