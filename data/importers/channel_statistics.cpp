#include "data/importers/channel_statistics.h"

#include <algorithm>
#include <cmath>

namespace lockstep::data {

Normalization ChannelStatistics::normalization(double scale) const {
  Normalization result{scale, {}, {}};
  for (const Channel& channel : channels_) {
    const double count = std::max(1.0, static_cast<double>(channel.count));
    const double mean = channel.sum / count;  // relative to the first value
    const double variance = std::max(0.0, channel.squares / count - mean * mean);
    const double std = std::sqrt(variance) * std::abs(scale);
    result.mean.push_back((channel.first + mean) * scale);
    result.std.push_back(std > 0 ? std : 1.0);
  }
  return result;
}

}  // namespace lockstep::data
