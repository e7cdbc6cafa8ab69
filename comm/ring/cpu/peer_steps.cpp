#include "comm/ring/cpu/peer_steps.h"

#include <algorithm>

#include "comm/ring/cpu/chunks.h"

namespace lockstep::comm::ring {

PeerSteps::PeerSteps(const Group& group, std::shared_ptr<SymmetricBuffer> memory,
                     schedule::Algorithm algorithm, schedule::Recorder* recorder)
    : group_(group),
      memory_(std::move(memory)),
      schedule_(algorithm(group.rank(), group.size())),
      recorder_(recorder) {
  for (int r = 0; r < group.size(); ++r)
    longest_ =
        std::max(longest_, static_cast<std::uint32_t>(algorithm(r, group.size()).steps.size()));
}

void PeerSteps::run(const Collective& call, DType dtype, std::span<std::byte* const> data,
                    std::size_t offset, std::int64_t count) {
  const StepKernels& kernels = step_kernels(dtype, call.signature.op);
  const auto self = static_cast<std::size_t>(group_.rank());
  std::uint32_t posted = begun_;
  for (const schedule::Step& step : schedule_.steps) {
    await_peer(step, call);
    const std::int64_t begin = slice_of(count, step.slice, schedule_.slices).begin;
    const std::int64_t end = slice_of(count, step.slice + step.slices - 1, schedule_.slices).end;
    const std::size_t place = offset + static_cast<std::size_t>(begin) * kernels.element_bytes;
    const auto start = recorder_ ? device::Clock::now() : device::Clock::time_point();
    execute(step, data[self] + place, data[static_cast<std::size_t>(step.from)] + place,
            static_cast<std::size_t>(end - begin), kernels);
    if (recorder_) recorder_->record({step, begin, end - begin, start, device::Clock::now()});
    post(done(group_.rank()), ++posted);
  }
  begun_ += longest_;
}

void PeerSteps::await_peer(const schedule::Step& step, const Collective& call) const {
  if (step.after == 0) return;  // the ranks have met
  const std::uint32_t target = begun_ + static_cast<std::uint32_t>(step.after);
  group_.wait(
      done(step.from),
      [&](std::uint32_t now) { return static_cast<std::int32_t>(now - target) >= 0; },
      call.deadline, [&] { return late(call, step.from, "finish"); });
}

void PeerSteps::execute(const schedule::Step& step, std::byte* mine, const std::byte* theirs,
                        std::size_t count, const StepKernels& kernels) const {
  using schedule::Action;
  const bool lower = step.from < group_.rank();
  switch (step.action) {
    case Action::reduce_from:
      kernels.combine(mine, lower ? theirs : mine, lower ? mine : theirs, count);
      break;
    case Action::reduce_complete_from:
      kernels.combine(mine, lower ? theirs : mine, lower ? mine : theirs, count);
      kernels.finish(mine, mine, count, group_.size());
      break;
    case Action::store_from:
      copy_bytes(mine, theirs, count * kernels.element_bytes);
      break;
    default:
      throw UsageError("a schedule of peer steps has a step that is not one");
  }
}

}  // namespace lockstep::comm::ring
