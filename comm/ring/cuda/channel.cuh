// A channel, as its block on one rank sees it: how the ranks come together for a collective, wait
// for each other, and part.
#pragma once

#include "comm/ring/cuda/world.h"
#include "framework/device/cuda/device.cuh"

namespace lockstep::comm::ring::cuda {

// How ranks signal each other. Tests run the kernels with protocols that have a bug.
struct Protocol {
  // Whether a rank stays until its right neighbour has read all.
  static constexpr bool exit_handshake = true;
  // How many pieces too early a rank reads.
  static constexpr std::uint64_t wait_short_by = 0;
  // Whether a rank waits for room before it overwrites a slot.
  static constexpr bool wait_for_room = true;
  // Tells a peer, through a counter in the peer's memory.
  __device__ static void signal(std::uint64_t* counter, std::uint64_t value) {
    device::store_release(counter, value);
  }
};

// Data in packs. The flag is never 0, which fresh memory holds; it comes round after 2^32 epochs.
__device__ inline std::uint32_t flag_of(std::uint64_t epoch) {
  return static_cast<std::uint32_t>(epoch % 0xFFFFFFFFu) + 1;
}
__device__ inline Pack pack(std::uint64_t data, std::uint32_t flag) {
  const std::uint64_t high = std::uint64_t{flag} << 32;
  return {(data & 0xFFFFFFFFu) | high, (data >> 32) | high};
}
__device__ inline Pack load_pack(const Pack* from) {
  const auto words = device::load_relaxed_pair(reinterpret_cast<const device::WordPair*>(from));
  return {words.low, words.high};
}
__device__ inline void store_pack(Pack* to, const Pack& packed) {
  device::store_relaxed_pair(reinterpret_cast<device::WordPair*>(to), {packed.low, packed.high});
}
__device__ inline std::uint64_t unpack(const Pack& packed) {
  return (packed.low & 0xFFFFFFFFu) | packed.high << 32;
}
__device__ inline bool has_flag(std::uint64_t word, std::uint32_t flag) {
  return static_cast<std::uint32_t>(word >> 32) == flag;
}

// Whoever is the first of this rank's blocks to fail tells the host, once what describes it is
// written, and ends the others' waits. One thread.
__device__ inline bool is_first_to_fail(const World& world) {
  return atomicCAS(world.failed, 0u, 1u) == 0u;
}
__device__ inline void tell(const World& world, Outcome outcome, int peer) {
  for (int i = 0; i < world.raised_count; ++i) world.raised[i] = 1;
  Control& control = *world.control;
  control.peer = peer;
  device::store_release(&control.outcome, static_cast<std::uint32_t>(outcome));
  device::store_relaxed(&control.abort, 1u);
}

// Used by all threads of a block together, but where "one thread" is said. Whatever returns whether
// it went well says false to all threads; the block then returns, the collective having failed, and
// the control word says why.
class Channel {
 public:
  __device__ Channel(const World& world, const Call& call)
      : world_(world),
        call_(call),
        epoch_(head(world.rank).state.epoch),
        start_(device::global_timer()) {}

  __device__ int rank() const { return world_.rank; }
  __device__ int size() const { return world_.layout.ranks; }
  __device__ std::uint64_t epoch() const { return epoch_; }
  __device__ std::uint32_t flag() const { return flag_of(epoch_); }

  __device__ ChannelHead& head(int rank) const {
    return *reinterpret_cast<ChannelHead*>(base(rank));
  }
  // Where rank `to` gets packs of this collective from rank `from`.
  __device__ Pack* packs(int to, int from) const {
    const auto row = static_cast<std::int64_t>(epoch_ % 2) * size() + from;
    return reinterpret_cast<Pack*>(base(to) + sizeof(ChannelHead)) +
           row * world_.layout.shape.packs;
  }
  __device__ std::byte* slots_of(int rank) const {
    return base(rank) + world_.layout.slots_offset();
  }

  // Tells all ranks what this one has come for.
  __device__ void announce() const {
    if (threadIdx.x >= static_cast<unsigned>(size())) return;
    Line& line = head(static_cast<int>(threadIdx.x)).lines[epoch_ % 2][rank()];
    const Signature mine = signature();
    std::uint64_t words[sizeof(Signature) / 8];
    __builtin_memcpy(words, &mine, sizeof(mine));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Signature) / 8); ++i) {
      store_pack(&line.packs[i], pack(words[i], flag()));
    }
  }

  // Waits until all ranks have come, for the same. From then on no rank is in an earlier collective
  // of this channel any more.
  __device__ bool agree() const {
    const int peer = static_cast<int>(threadIdx.x);
    const bool reads = peer < size();
    Signature theirs;
    const bool read =
        device::load_relaxed(world_.failed) == 0 && (!reads || read_line(peer, theirs));
    const bool agrees = read && (!reads || theirs == signature());
    if (__syncthreads_and(agrees) != 0) return true;
    if (__syncthreads_and(read) == 0) return false;
    // Everybody's signature goes to the host, which finds the words.
    const bool first = peer == 0 && is_first_to_fail(world_);
    if (__syncthreads_or(first) == 0) return false;
    if (reads) world_.control->signatures[peer] = theirs;
    __syncthreads();
    if (first) tell(world_, Outcome::disagree, peer);
    return false;
  }

  __device__ bool open() const {
    announce();
    return agree();
  }

  // One thread: until the counter has come to `value`.
  __device__ bool wait(const std::uint64_t& counter, std::uint64_t value, int peer) const {
    return spin(
        &counter, [=](std::uint64_t seen) { return seen >= value; }, peer);
  }

  // One thread: until the pack has come.
  __device__ bool receive(const Pack* from, std::uint64_t& data, int peer) const {
    const std::uint32_t expected = flag();
    const auto has_come = [=](std::uint64_t word) { return has_flag(word, expected); };
    Pack packed = load_pack(from);
    while (!has_come(packed.low) || !has_come(packed.high)) {
      if (!spin(has_come(packed.low) ? &from->high : &from->low, has_come, peer)) return false;
      packed = load_pack(from);
    }
    data = unpack(packed);
    return true;
  }

  // All ranks meet: what each of them wrote and read before is done. `rounds` counts.
  __device__ bool meet(std::uint64_t& rounds) const {
    __syncthreads();
    ++rounds;
    bool met = true;
    if (threadIdx.x < static_cast<unsigned>(size())) {
      const int peer = static_cast<int>(threadIdx.x);
      device::store_release(&head(peer).rounds[rank()].value, rounds);
      met = wait(head(rank()).rounds[peer].value, rounds, peer);
    }
    return __syncthreads_and(met) != 0;
  }

  // The last call of a kernel that went well. The last of its blocks to come here ends it.
  __device__ void close() const {
    __syncthreads();
    if (threadIdx.x != 0) return;
    device::store_relaxed(&head(rank()).state.epoch, epoch_ + 1);
    ChannelHead::Shared& own = shared(rank());
    if (device::fetch_add_acquire_release(&own.closed, 1u) + 1 != gridDim.x) return;
    own.closed = 0;
    if (!call_.is_last) return;
    const std::uint64_t number = ++own.sequence;
    Control& control = *world_.control;
    control.times[number % Control::kept_times] = {number, start_, device::global_timer()};
    device::store_release(&control.finished, number);
  }

 private:
  __device__ std::byte* base(int rank) const {
    return world_.memory[rank] + blockIdx.x * world_.layout.channel_bytes();
  }

  // No block changes the sequence while another one may ask for it.
  __device__ Signature signature() const {
    Signature mine = call_.signature;
    mine.sequence = shared(rank()).sequence;
    return mine;
  }

  // One thread.
  __device__ bool read_line(int peer, Signature& theirs) const {
    const Line& line = head(rank()).lines[epoch_ % 2][peer];
    std::uint64_t words[sizeof(Signature) / 8] = {};
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Signature) / 8); ++i) {
      if (!receive(&line.packs[i], words[i], peer)) return false;
    }
    __builtin_memcpy(&theirs, words, sizeof(theirs));
    return true;
  }

  // One thread: spin_until(), in stretches between which this rank shows that it is there.
  template <class Word, class Ready>
  __device__ bool spin(const Word* word, Ready ready, int peer) const {
    if (ready(device::load_acquire(word))) return true;
    device::SpinEnd end;
    std::uint64_t until;
    do {
      const std::uint64_t now = device::global_timer();
      device::store_relaxed(&shared(rank()).seen, now);
      until = now + stretch() < deadline() ? now + stretch() : deadline();
      end = device::spin_until(word, ready, {&world_.control->abort, until});
    } while (end == device::SpinEnd::timed_out && until < deadline());
    if (end == device::SpinEnd::ready) return true;
    if (end == device::SpinEnd::aborted) {
      fail(Outcome::aborted, peer);
      return false;
    }
    const int late = who_holds_up(peer);
    fail(has_arrived(late) ? Outcome::late_to_finish : Outcome::late_to_arrive, late);
    return false;
  }
  __device__ std::uint64_t deadline() const {
    return start_ + world_.timeout;
  }
  __device__ std::uint64_t stretch() const {
    return world_.timeout / 64 + 1;
  }

  // In a ring a rank waits for one that waits for another. Which one holds up all is the one that
  // has not been seen for longest, of those that are not done: who waits shows itself. `peer` is
  // the one waited for, and it stands where there is no telling.
  __device__ int who_holds_up(int peer) const {
    int late = peer;
    for (int other = 0; other < size(); ++other) {
      const bool is_done = device::load_relaxed(&head(other).state.epoch) > epoch_;
      if (other == rank() || is_done) continue;
      if (when_seen(other) + 2 * stretch() < when_seen(late)) late = other;
    }
    return late;
  }
  __device__ std::uint64_t when_seen(int rank) const {
    return device::load_relaxed(&shared(rank).seen);
  }
  __device__ ChannelHead::Shared& shared(int rank) const {
    return reinterpret_cast<ChannelHead*>(world_.memory[rank])->shared;
  }
  __device__ bool has_arrived(int peer) const {
    return has_flag(device::load_relaxed(&head(rank()).lines[epoch_ % 2][peer].packs[0].low),
                    flag());
  }

  // One thread.
  __device__ void fail(Outcome outcome, int peer) const {
    if (!is_first_to_fail(world_)) return;
    world_.control->signatures[rank()] = signature();
    tell(world_, outcome, peer);
  }

  const World& world_;
  const Call& call_;
  std::uint64_t epoch_;
  std::uint64_t start_;
};

}  // namespace lockstep::comm::ring::cuda
