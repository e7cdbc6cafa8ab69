#include "comm/ring/cpu/ring_pipeline.h"

#include <algorithm>
#include <cstring>

namespace lockstep::comm::ring {

namespace {

// Whether a wrapping counter has come to `target`.
bool reached(std::uint32_t counter, std::uint32_t target) {
  return static_cast<std::int32_t>(counter - target) >= 0;
}

}  // namespace

std::size_t RingPipeline::bytes() {
  return sizeof(Queue);
}

RingPipeline::RingPipeline(const Group& group, std::shared_ptr<SymmetricBuffer> memory,
                           schedule::Recorder* recorder)
    : group_(group),
      memory_(std::move(memory)),
      left_((group.rank() + group.size() - 1) % group.size()),
      right_((group.rank() + 1) % group.size()),
      steps_(schedule::ring_all_reduce(group.rank(), group.size()).steps),
      recorder_(recorder) {}

void RingPipeline::all_reduce(const Collective& call) {
  const StepKernels& kernels = step_kernels(call.data.dtype, call.signature.op);
  const auto piece = static_cast<std::int64_t>(piece_bytes / kernels.accumulator_bytes);
  const std::int64_t longest = (call.data.count + group_.size() - 1) / group_.size();
  for (std::int64_t begin = 0; begin < longest; begin += pieces_per_step * piece) {
    for (const schedule::Step& step : steps_) {
      const Slice slice = slice_of(call.data.count, step.slice, group_.size());
      for (int p = 0; p < pieces_per_step; ++p) {
        const std::int64_t first = slice.begin + begin + p * piece;
        const std::int64_t count = std::min(piece, slice.end - first);
        // Both ends of a message know its length, so that an empty one need not be sent.
        if (count <= 0) break;
        execute(step, first, static_cast<std::size_t>(count), kernels, call);
      }
    }
  }
}

void RingPipeline::execute(const schedule::Step& step, std::int64_t first, std::size_t count,
                           const StepKernels& kernels, const Collective& call) {
  using schedule::Action;
  std::byte* const data = static_cast<std::byte*>(call.data.data) +
                          static_cast<std::size_t>(first) * kernels.element_bytes;
  const std::byte* in = step.from == schedule::Step::nobody ? nullptr : await_piece(call);
  std::byte* out = step.to == schedule::Step::nobody ? nullptr : await_room(call);
  const std::size_t bytes = count * kernels.element_bytes;
  const auto start = recorder_ ? device::Clock::now() : device::Clock::time_point();
  switch (step.action) {
    case Action::send:
      kernels.load(out, data, count);
      break;
    case Action::receive_reduce_send:
      kernels.combine(out, in, data, count);
      break;
    case Action::receive_reduce_store_send:
      kernels.combine(out, in, data, count);
      kernels.finish(data, out, count, group_.size());
      std::memcpy(out, data, bytes);
      break;
    case Action::receive_store_send:
      std::memcpy(data, in, bytes);
      std::memcpy(out, in, bytes);
      break;
    case Action::receive_store:
      std::memcpy(data, in, bytes);
      break;
    default:
      throw UsageError("a ring has no step that reads a peer's memory");
  }
  if (recorder_)
    recorder_->record({step, first, static_cast<std::int64_t>(count), start, device::Clock::now()});
  if (in) release_piece();
  if (out) send_piece();
}

const std::byte* RingPipeline::await_piece(const Collective& call) {
  Queue& queue = queue_of(left_);
  const std::uint32_t target = received_ + 1;
  group_.wait(
      queue.sent, [&](std::uint32_t sent) { return reached(sent, target); }, call.deadline,
      [&] { return late(call, left_, "finish"); });
  return queue.pieces[received_ % depth];
}

void RingPipeline::release_piece() {
  post(queue_of(left_).received, ++received_);
}

std::byte* RingPipeline::await_room(const Collective& call) {
  Queue& queue = queue_of(group_.rank());
  const std::uint32_t target = sent_ + 1 - depth;
  group_.wait(
      queue.received, [&](std::uint32_t received) { return reached(received, target); },
      call.deadline, [&] { return late(call, right_, "finish"); });
  return queue.pieces[sent_ % depth];
}

void RingPipeline::send_piece() {
  post(queue_of(group_.rank()).sent, ++sent_);
}

RingPipeline::Queue& RingPipeline::queue_of(int rank) const {
  return *reinterpret_cast<Queue*>(memory_->part(rank).data());
}

}  // namespace lockstep::comm::ring
