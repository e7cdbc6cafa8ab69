// What the collectives' kernels and the host code around them share: plain values, passed to
// kernels or lying in memory that both can see.
//
// Every rank has memory on its GPU that its peers read and write, cut into channels. Block c of a
// collective's kernel is channel c on every rank, and channels know nothing of each other: a
// collective is as many independent collectives as it has channels. What a kernel needs to know of
// those before it (epochs, counters) lies in the channels too and only grows, so nothing that
// changes from one collective to the next is an argument, and a captured graph can be replayed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/communicator.h"
#include "comm/schedule/schedule.h"
#include "comm/signature.h"
#include "framework/base/division.h"

namespace lockstep::comm::ring::cuda {

inline constexpr int most_ranks = 32;
inline constexpr unsigned most_threads = 512;  // of a block
// Of a channel's queue to the right neighbour. A rank hands over `run_pieces` before it waits for
// one; with no more slots than those a ring of full queues would be stuck.
inline constexpr int slots = 4;
inline constexpr int run_pieces = 2;

// How the ring's data crosses a link: read by the right neighbour out of the left one's memory, or
// written by the left neighbour into the right one's.
enum class Transfer : std::uint8_t { pull, push };

// The same on all ranks.
struct Shape {
  int channels = 16;
  unsigned threads = 512;             // of a block: a multiple of the warp
  std::size_t slot_bytes = 64 << 10;  // a multiple of 128
  int packs = 1024;                   // low latency, of one sender and channel: 8 bytes each; even
  Transfer transfer = Transfer::pull;
};

// 4 bytes of data and a flag of 4 bytes in either word, so that data needs no flag beside it (the
// "LL" protocol of NCCL).
struct alignas(16) Pack {
  std::uint64_t low, high;
};

// A collective's signature in packs.
struct alignas(64) Line {
  Pack packs[sizeof(Signature) / 8];
};
static_assert(sizeof(Signature) == 32);

// Written by one peer, polled by the owner.
struct alignas(128) Counter {
  std::uint64_t value;
};

// The head of a channel. Behind it: packs for low latency, [2][ranks][Shape::packs]; slots.
struct alignas(128) ChannelHead {
  // The owner's own.
  struct alignas(128) State {
    std::uint64_t epoch;           // kernels so far
    std::uint64_t sent, received;  // pieces, to the right and from the left
    std::uint64_t rounds;          // of all ranks
  };
  State state;
  // Of the owner too, and of all its channels; in the head of channel 0.
  struct alignas(128) Shared {
    std::uint64_t sequence;  // collectives so far
    std::uint64_t seen;      // when this rank was last seen to be there, on the global timer
    std::uint32_t closed;    // channels that are done with the kernel under way
  };
  Shared shared;
  Counter sent_by_left;
  Counter received_by_right;
  Counter rounds[most_ranks];  // that a peer has come to
  Line lines[2][most_ranks];   // what peers have come for, by the epoch's lowest bit
};

// Where the parts of a channel are.
struct Layout {
  int ranks = 1;
  Shape shape;

  constexpr std::size_t packs_bytes() const {
    return std::size_t{2} * static_cast<std::size_t>(ranks) *
           static_cast<std::size_t>(shape.packs) * sizeof(Pack);
  }
  constexpr std::size_t slots_offset() const {
    return (sizeof(ChannelHead) + packs_bytes() + 127) / 128 * 128;
  }
  constexpr std::size_t channel_bytes() const { return slots_offset() + slots * shape.slot_bytes; }
  constexpr std::size_t bytes() const {
    return static_cast<std::size_t>(shape.channels) * channel_bytes();
  }
};

// What went wrong.
enum class Outcome : std::uint32_t {
  none,
  aborted,
  late_to_arrive,
  late_to_finish,
  disagree,
  not_vouched
};

// In page-locked memory of the host, one for each rank. `abort` ends every wait of this rank's
// kernels; it is set by the host, and by the first block that fails.
struct Control {
  std::uint32_t abort;
  std::uint32_t outcome;             // an Outcome, written behind what describes it
  std::int32_t peer;                 // that was late, or did not vouch
  Signature signatures[most_ranks];  // this rank's, or where they disagree all ranks'
  std::uint64_t finished;            // how many collectives went well
  // When a collective began and ended, on the global timer; by its number, from 1 on.
  struct Times {
    std::uint64_t number, start, end;
  };
  static constexpr int kept_times = 1024;
  Times times[kept_times];
  Times marks[kept_times];  // the same for marks, which begin and end at once
};

// Of one rank; an argument of every kernel.
struct World {
  int rank = 0;
  Layout layout;
  std::byte* const* memory = nullptr;  // of each rank, as seen from here; the table is on the GPU
  std::uint32_t* failed = nullptr;     // on the GPU: not 0 once a block has failed
  std::uint64_t* marks = nullptr;      // on the GPU: how many there were
  std::int32_t* raised = nullptr;      // on the GPU, somebody else's: 1 from then on
  int raised_count = 0;
  Control* control = nullptr;
  std::uint64_t timeout = 0;  // nanoseconds, of one collective
};

// One collective: the arguments of one kernel.
struct Call {
  Signature signature;  // but for the sequence, which the GPU counts
  void* data = nullptr;
  void* receive = nullptr;  // of all_to_all
  // Of elements at `data`: fewer than the signature's in each of several kernels, of which one is
  // the last.
  std::int64_t count = 0;
  bool is_last = true;
};

// Of class Vouchers, on the GPU.
struct VoucherWords {
  std::uint64_t* words = nullptr;  // by rank
  std::uint64_t* epoch = nullptr;  // how often this rank has vouched
  int own = 0;
  int count = 1;
};

// A rank's part in a ring, and how the data is cut for it.
struct RingPlan {
  const schedule::Step* steps = nullptr;  // on the GPU
  int count = 0;
  int slices = 1;
  std::int64_t slice_width = 0;  // elements; 0 where slice_of() cuts the slices
  std::int64_t piece = 0;        // elements that travel in a slot: whole groups of 16 bytes

  constexpr Slice slice(std::int64_t total, int index) const {
    if (slice_width == 0) return slice_of(total, index, slices);
    const std::int64_t begin = slice_width * index, end = begin + slice_width;
    return {begin < total ? begin : total, end < total ? end : total};
  }
  constexpr std::int64_t longest_slice(std::int64_t total) const {
    return slice_width == 0 ? base::ceil_div(total, slices) : slice_width;
  }
};

}  // namespace lockstep::comm::ring::cuda
