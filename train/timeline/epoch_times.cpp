#include "train/timeline/epoch_times.h"

#include <algorithm>
#include <utility>

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

double EpochTimes::waited_share(int rank) const {
  double steps = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (r != static_cast<std::size_t>(rank)) steps += ranks[r].parts.step;
  const double waited =
      ranks[static_cast<std::size_t>(rank)].waited_for * static_cast<double>(ranks.size() - 1);
  return steps > 0 ? waited / steps : 0;
}

EpochRecorder::EpochRecorder(Context& context, comm::Communicator& communicator)
    : context_(context),
      communicator_(communicator),
      last_(static_cast<std::size_t>(communicator.size())),
      waits_(static_cast<std::size_t>(communicator.size())),
      ends_(window),
      starts_(context, window * static_cast<std::size_t>(communicator.size())) {}

void EpochRecorder::add(const StepParts& parts, std::span<const comm::Work> works, Stream& stream) {
  parts_ += parts;
  if (communicator_.size() == 1) return;
  const std::size_t own = window * static_cast<std::size_t>(communicator_.rank());
  for (const comm::Work& work : works) {
    if (count_ == window) exchange(stream);
    const auto times = work.times();
    starts_[own + count_] = nanoseconds(times.start);
    ends_[count_++] = nanoseconds(times.end);
  }
}

void EpochRecorder::exchange(Stream& stream) {
  communicator_.all_gather(starts_.range(), stream).wait();
  const auto ranks = last_.size(), own = static_cast<std::size_t>(communicator_.rank());
  for (std::size_t c = 0; c < count_; ++c) {
    std::size_t last = 0;
    for (std::size_t r = 0; r < ranks; ++r)
      if (starts_[r * window + c] > starts_[last * window + c]) last = r;
    ++last_[last];
    // A collective that overlaps with the one before it does not count twice.
    const std::int64_t begin = std::max(starts_[own * window + c], free_at_);
    const std::int64_t end = std::min(starts_[last * window + c], ends_[c]);
    if (end > begin) waits_[last] += static_cast<double>(end - begin) * 1e-9;
    free_at_ = std::max(free_at_, ends_[c]);
  }
  collectives_ += static_cast<std::int64_t>(count_);
  count_ = 0;
}

EpochTimes EpochRecorder::take(Stream& stream) {
  if (count_ > 0) exchange(stream);
  const StepParts& own = parts_;
  std::vector<double> values{own.step,      own.compute,      own.exposed,      own.wake_up,
                             own.data_wait, own.summary_wait, own.communication};
  const std::size_t parts = values.size(), ranks = last_.size();
  values.insert(values.end(), waits_.begin(), waits_.end());
  const auto all = gather<double>(context_, communicator_, values, stream);
  EpochTimes times;
  times.collectives = std::exchange(collectives_, 0);
  times.ranks.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    RankTimes& rank = times.ranks[r];
    const double* const v = all.data() + r * values.size();
    rank.parts = {v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
    rank.last = std::exchange(last_[r], 0);
    for (std::size_t other = 0; other < ranks; ++other)
      rank.waited_for += all[other * values.size() + parts + r];
    if (ranks > 1) rank.waited_for /= static_cast<double>(ranks - 1);
  }
  parts_ = {};
  std::fill(waits_.begin(), waits_.end(), 0);
  return times;
}

}  // namespace lockstep::train
