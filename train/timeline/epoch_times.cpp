#include "train/timeline/epoch_times.h"

#include <algorithm>
#include <array>

#include "train/parallel/gather.h"

namespace lockstep::train {
namespace {

constexpr std::size_t window = 4096;  // collectives

std::int64_t nanoseconds(device::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

StepParts EpochTimes::mean() const {
  StepParts sum;
  for (const RankTimes& rank : ranks) sum += rank.parts;
  const auto n = static_cast<double>(ranks.size());
  return {sum.step / n,      sum.compute / n,      sum.exposed / n,      sum.wake_up / n,
          sum.data_wait / n, sum.summary_wait / n, sum.communication / n};
}

int EpochTimes::slowest() const {
  const auto found = std::max_element(
      ranks.begin(), ranks.end(),
      [](const RankTimes& a, const RankTimes& b) { return a.waited_for < b.waited_for; });
  return static_cast<int>(found - ranks.begin());
}

EpochRecorder::EpochRecorder(Context& context, comm::Communicator& communicator)
    : context_(context),
      communicator_(communicator),
      starts_(context, window * static_cast<std::size_t>(communicator.size())) {
  times_.ranks.resize(static_cast<std::size_t>(communicator.size()));
}

void EpochRecorder::add(const StepParts& parts, std::span<const comm::Work> works, Stream& stream) {
  parts_ += parts;
  if (communicator_.size() == 1) return;
  const std::size_t own = window * static_cast<std::size_t>(communicator_.rank());
  for (const comm::Work& work : works) {
    if (count_ == window) exchange(stream);
    starts_[own + count_++] = nanoseconds(work.times().start);
  }
}

void EpochRecorder::exchange(Stream& stream) {
  communicator_.all_gather(starts_.range(), stream).wait();
  const auto ranks = times_.ranks.size();
  for (std::size_t c = 0; c < count_; ++c) {
    std::size_t last = 0;
    std::int64_t earlier = 0;  // sum of how much earlier than rank 0 each rank came
    for (std::size_t r = 0; r < ranks; ++r) {
      if (starts_[r * window + c] > starts_[last * window + c]) last = r;
      earlier += starts_[c] - starts_[r * window + c];
    }
    const std::int64_t waited =
        static_cast<std::int64_t>(ranks) * (starts_[last * window + c] - starts_[c]) + earlier;
    ++times_.ranks[last].last;
    times_.ranks[last].waited_for +=
        static_cast<double>(waited) * 1e-9 / static_cast<double>(ranks - 1);
  }
  times_.collectives += static_cast<std::int64_t>(count_);
  count_ = 0;
}

EpochTimes EpochRecorder::take(Stream& stream) {
  if (count_ > 0) exchange(stream);
  const StepParts& own = parts_;
  const std::array values{own.step,      own.compute,      own.exposed,      own.wake_up,
                          own.data_wait, own.summary_wait, own.communication};
  const auto all = gather<double>(context_, communicator_, values, stream);
  EpochTimes times = times_;
  for (std::size_t r = 0; r < times.ranks.size(); ++r) {
    const double* const v = all.data() + r * values.size();
    times.ranks[r].parts = {v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
  }
  parts_ = {};
  times_.collectives = 0;
  std::fill(times_.ranks.begin(), times_.ranks.end(), RankTimes());
  return times;
}

}  // namespace lockstep::train
