#include "data/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "framework/base/error.h"

namespace lockstep::data {

Normalizer::Normalizer(const DatasetInfo& info, DType result)
    : stored_(info.dtype), result_(result) {
  if (result != DType::float32 && result != DType::float64) {
    throw UsageError(fmt::format("loader: features asked for as {}, expected float32 or float64",
                                 base::name_of(result)));
  }
  const Normalization& normalization = info.normalization;
  channels_ = std::max(normalization.mean.size(), normalization.std.size());
  channel_elements_ = static_cast<std::size_t>(info.feature_shape.count()) / channels_;
  for (std::size_t channel = 0; channel < channels_; ++channel) {
    const auto of_channel = [&](const std::vector<double>& values) {
      return values.size() == 1 ? values.front() : values[channel];
    };
    const double std = of_channel(normalization.std);
    factor_.push_back(normalization.scale / std);
    offset_.push_back(-of_channel(normalization.mean) / std);
  }
}

template <class Stored, class Result>
void Normalizer::apply(const Stored* row, Result* out) const {
  if (channel_elements_ == 1) {  // a table: each column its own factor
    for (std::size_t i = 0; i < channels_; ++i) {
      out[i] = static_cast<Result>(row[i]) * static_cast<Result>(factor_[i]) +
               static_cast<Result>(offset_[i]);
    }
    return;
  }
  for (std::size_t channel = 0; channel < channels_; ++channel) {
    const auto factor = static_cast<Result>(factor_[channel]);
    const auto offset = static_cast<Result>(offset_[channel]);
    for (std::size_t i = 0; i < channel_elements_; ++i) {
      out[i] = static_cast<Result>(row[i]) * factor + offset;
    }
    row += channel_elements_;
    out += channel_elements_;
  }
}

void Normalizer::operator()(const std::byte* row, std::byte* out) const {
  const auto to = [&](auto* result) {
    if (stored_ == DType::uint8) {
      apply(reinterpret_cast<const std::uint8_t*>(row), result);
    } else {
      apply(reinterpret_cast<const float*>(row), result);
    }
  };
  if (result_ == DType::float32) {
    to(reinterpret_cast<float*>(out));
  } else {
    to(reinterpret_cast<double*>(out));
  }
}

}  // namespace lockstep::data
