// Mean and standard deviation of each channel of a set's features, from one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset_file.h"

namespace lockstep::data {

class ChannelStatistics {
 public:
  // Samples of `channels` channels, each of `channel_elements` consecutive elements.
  ChannelStatistics(std::size_t channels, std::size_t channel_elements)
      : channel_elements_(channel_elements), channels_(channels) {}

  // One or more whole samples.
  template <class T>
  void add(std::span<const T> samples) {
    for (std::size_t at = 0; at < samples.size(); at += channel_elements_) {
      Channel& channel = channels_[at / channel_elements_ % channels_.size()];
      for (const T element : samples.subspan(at, channel_elements_)) {
        channel.add(static_cast<double>(element));
      }
    }
  }

  // The normalisation that gives each channel of x * scale mean 0 and standard deviation 1;
  // channels that do not vary are only centred.
  Normalization normalization(double scale) const;

 private:
  // Sums relative to the first value, so that they do not cancel when a channel varies little
  // around a large mean. Exact for uint8.
  struct Channel {
    std::int64_t count = 0;
    double first = 0;
    double sum = 0;
    double squares = 0;

    void add(double value) {
      if (count++ == 0) first = value;
      const double difference = value - first;
      sum += difference;
      squares += difference * difference;
    }
  };

  std::size_t channel_elements_;
  std::vector<Channel> channels_;
};

}  // namespace lockstep::data
