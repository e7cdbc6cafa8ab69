// The kernel that runs a rank's steps of a ring (comm/schedule): all-reduce and its halves, and the
// chains that broadcast and reduce are.
//
// Left and right neighbour of every channel are joined by a queue of slots, in the left one's
// memory (pull) or in the right one's (push). Who fills a slot counts it in a counter in the right
// one's memory, who has read it in one in the left one's memory, so that each polls its own memory.
// Partials of 16-bit floats travel as float.
#pragma once

#include "comm/ring/cuda/channel.cuh"
#include "comm/ring/cuda/elements.cuh"

namespace lockstep::comm::ring::cuda {

// What an action does with a piece.
struct Flow {
  bool receives, reduces, completes, stores, sends;
};

__device__ inline Flow flow_of(schedule::Action action) {
  using schedule::Action;
  switch (action) {
    case Action::send:
      return {
          .receives = false, .reduces = true, .completes = false, .stores = false, .sends = true};
    case Action::receive_reduce_send:
      return {
          .receives = true, .reduces = true, .completes = false, .stores = false, .sends = true};
    case Action::receive_reduce_store_send:
      return {.receives = true, .reduces = true, .completes = true, .stores = true, .sends = true};
    case Action::receive_reduce_store:
      return {.receives = true, .reduces = true, .completes = true, .stores = true, .sends = false};
    case Action::send_complete:
      return {
          .receives = false, .reduces = false, .completes = true, .stores = false, .sends = true};
    case Action::receive_store_send:
      return {.receives = true, .reduces = false, .completes = true, .stores = true, .sends = true};
    case Action::receive_store:
      return {
          .receives = true, .reduces = false, .completes = true, .stores = true, .sends = false};
    default:  // a ring has no other
      return {};
  }
}

// One piece of one step: `count` elements at `data`. `in` and `out` are slots, nullptr where the
// step has none.
template <class T>
struct Piece {
  T* data;
  std::int64_t count;
  ReduceOp op;
  int divisor;

  __device__ void move(const Flow& flow, const std::byte* in, std::byte* out) const {
    by_width(data, count, [&]<int w>(Width<w>, std::int64_t begin, std::int64_t end) {
      if (flow.completes) {
        complete<w>(flow, in, out, begin, end);
      } else {
        pass_on<w>(in, out, begin, end);
      }
    });
  }

 private:
  using A = Accumulator<T>;

  // This rank's contribution, added to the partial from the left where there is one.
  template <int w>
  __device__ Lanes<w, A> partial(const std::byte* in, std::int64_t i) const {
    const Lanes<w, T> own = load_lanes<w>(static_cast<const T*>(data) + i);
    Lanes<w, A> result;
    if (in != nullptr) result = load_lanes<w>(reinterpret_cast<const A*>(in) + i);
#pragma unroll
    for (int k = 0; k < w; ++k) {
      const A mine = static_cast<A>(own.lane[k]);
      result.lane[k] = in != nullptr ? combine(op, result.lane[k], mine) : mine;
    }
    return result;
  }

  template <int w>
  __device__ void pass_on(const std::byte* in, std::byte* out, std::int64_t begin,
                          std::int64_t end) const {
    for_lanes<w>(
        begin, end, [&](std::int64_t i) { return partial<w>(in, i); },
        [&](std::int64_t i, const Lanes<w, A>& value) {
          store_lanes(reinterpret_cast<A*>(out) + i, value);
        });
  }

  template <int w>
  __device__ void complete(const Flow& flow, const std::byte* in, std::byte* out,
                           std::int64_t begin, std::int64_t end) const {
    const auto value = [&](std::int64_t i) {
      if (!flow.reduces) {
        return load_lanes<w>(in == nullptr ? data + i : reinterpret_cast<const T*>(in) + i);
      }
      const Lanes<w, A> reduced = partial<w>(in, i);
      Lanes<w, T> result;
#pragma unroll
      for (int k = 0; k < w; ++k) result.lane[k] = finish<T>(reduced.lane[k], divisor);
      return result;
    };
    for_lanes<w>(begin, end, value, [&](std::int64_t i, const Lanes<w, T>& lanes) {
      if (flow.stores) store_lanes(data + i, lanes);
      if (out != nullptr) store_lanes(reinterpret_cast<T*>(out) + i, lanes);
    });
  }
};

// A channel's queues to both neighbours, during one collective.
template <class P>
class Neighbours {
 public:
  __device__ Neighbours(const Channel& channel, const Shape& shape)
      : channel_(channel),
        slot_bytes_(shape.slot_bytes),
        left_((channel.rank() + channel.size() - 1) % channel.size()),
        right_((channel.rank() + 1) % channel.size()),
        in_(channel.slots_of(shape.transfer == Transfer::pull ? left_ : channel.rank())),
        out_(channel.slots_of(shape.transfer == Transfer::pull ? channel.rank() : right_)),
        own_(channel.head(channel.rank())),
        received_(own_.state.received),
        sent_(own_.state.sent) {}

  // Calls move(in, out) when the left neighbour's next piece has come and there is room for the
  // next one to the right, as far as the flow has these.
  template <class Move>
  __device__ bool pass(const Flow& flow, Move&& move) {
    bool ready = true;
    if (threadIdx.x == 0) {
      if (flow.receives) {
        ready = channel_.wait(own_.sent_by_left.value, received_ + 1 - P::wait_short_by, left_);
      }
      if (ready && flow.sends && P::wait_for_room && sent_ >= slots) {
        ready = channel_.wait(own_.received_by_right.value, sent_ + 1 - slots, right_);
      }
    }
    if (__syncthreads_and(ready) == 0) return false;
    move(flow.receives ? in_ + received_ % slots * slot_bytes_ : nullptr,
         flow.sends ? out_ + sent_ % slots * slot_bytes_ : nullptr);
    __syncthreads();
    sent_ += flow.sends ? 1 : 0;
    received_ += flow.receives ? 1 : 0;
    if (threadIdx.x == 0) {
      if (flow.sends) P::signal(&channel_.head(right_).sent_by_left.value, sent_);
      if (flow.receives) P::signal(&channel_.head(left_).received_by_right.value, received_);
    }
    return true;
  }

  // Stays until the right neighbour has read everything: then it looks at this rank's memory no
  // more, which may be freed.
  __device__ bool leave() const {
    bool read = true;
    if (P::exit_handshake && threadIdx.x == 0) {
      read = channel_.wait(own_.received_by_right.value, sent_, right_);
    }
    const bool all_read = __syncthreads_and(read) != 0;
    if (threadIdx.x == 0) {  // and no thread has yet to look at what these were
      own_.state.sent = sent_;
      own_.state.received = received_;
    }
    return all_read;
  }

 private:
  const Channel& channel_;
  std::size_t slot_bytes_;
  int left_, right_;
  const std::byte* in_;
  std::byte* out_;
  ChannelHead& own_;
  std::uint64_t received_, sent_;
};

// The channels take turns with runs of pieces of every slice. All steps are done for a run before
// the next one begins; within a step the pieces of a run hide each other's way across the link.
template <class T, class P>
__global__ void __launch_bounds__(most_threads, 1)
    ring_kernel(World world, Call call, RingPlan plan) {
  const Channel channel(world, call);
  if (!channel.open()) return;
  const Shape& shape = world.layout.shape;
  const Signature& s = call.signature;
  const std::int64_t piece = plan.piece;
  const std::int64_t run = run_pieces * piece;
  const std::int64_t longest = plan.longest_slice(call.count);
  const int divisor = s.op == ReduceOp::avg ? channel.size() : 1;
  Neighbours<P> neighbours(channel, shape);
  for (std::int64_t begin = blockIdx.x * run; begin < longest; begin += gridDim.x * run) {
    for (int step = 0; step < plan.count; ++step) {
      const Flow flow = flow_of(plan.steps[step].action);
      const Slice slice = plan.slice(call.count, plan.steps[step].slice);
      for (std::int64_t first = begin; first < begin + run; first += piece) {
        const std::int64_t left = slice.count() - first;
        // Both ends of a message know its length, so that an empty one need not be sent.
        if (left <= 0) break;
        const Piece<T> moved{static_cast<T*>(call.data) + slice.begin + first,
                             left < piece ? left : piece, s.op, divisor};
        const bool passed = neighbours.pass(
            flow, [&](const std::byte* in, std::byte* out) { moved.move(flow, in, out); });
        if (!passed) return;
      }
    }
  }
  if (neighbours.leave()) channel.close();
}

}  // namespace lockstep::comm::ring::cuda
