#include "data/dataset_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "data/hdf5_attributes.h"
#include "framework/base/error.h"

namespace lockstep::data {

namespace {

void check_format(hid_t root, const std::string& path) {
  const auto format = hdf5::read_text(root, "format", path);
  if (format != dataset_format) {
    throw DataError(
        fmt::format("{}: attribute 'format': found {}, expected '{}' (a file made by "
                    "`dataset import`)",
                    path, format ? "'" + *format + "'" : "none", dataset_format));
  }
  const auto version = hdf5::read_integer(root, "version", path);
  if (version != dataset_version) {
    throw DataError(fmt::format("{}: attribute 'version': found {}, expected {}", path,
                                version ? std::to_string(*version) : "none", dataset_version));
  }
}

void read_classes(hid_t root, const std::string& path, DatasetInfo& info) {
  const auto classes = hdf5::read_integer(root, "classes", path);
  if (!classes || *classes < 1) {
    throw DataError(fmt::format("{}: attribute 'classes': found {}, expected an integer >= 1", path,
                                classes ? std::to_string(*classes) : "none"));
  }
  info.classes = *classes;
  info.class_names = hdf5::read_texts(root, "class_names", path).value_or(info.class_names);
  const auto names = static_cast<std::int64_t>(info.class_names.size());
  if (names != 0 && names != info.classes) {
    throw DataError(
        fmt::format("{}: attribute 'class_names': found {} names, expected {} as in "
                    "'classes'",
                    path, names, info.classes));
  }
}

// Of one number, or of one for each channel.
void check_values(const std::string& path, const std::string& name, std::span<const double> values,
                  std::int64_t channels, bool positive) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (count != 1 && count != channels) {
    throw DataError(fmt::format("{}: attribute '{}': found {} values, expected 1 or {}", path, name,
                                count, channels));
  }
  const auto bad = std::ranges::find_if_not(
      values, [&](double value) { return std::isfinite(value) && (value > 0 || !positive); });
  if (bad != values.end()) {
    throw DataError(fmt::format("{}: attribute '{}': found {}, expected a {} number", path, name,
                                *bad, positive ? "positive" : "finite"));
  }
}

}  // namespace

void read_header(hid_t root, const std::string& path, DatasetInfo& info) {
  check_format(root, path);
  info.name = hdf5::read_text(root, "name", path).value_or("");
  read_classes(root, path, info);
  Normalization& normalization = info.normalization;
  const auto scale = hdf5::read_reals(root, "scale", path).value_or(std::vector<double>{1});
  if (scale.size() != 1 || !std::isfinite(scale[0]) || scale[0] == 0) {
    throw DataError(fmt::format("{}: attribute 'scale': found [{}], expected one number, not 0",
                                path, fmt::join(scale, ", ")));
  }
  normalization.scale = scale[0];
  normalization.mean = hdf5::read_reals(root, "mean", path).value_or(normalization.mean);
  normalization.std = hdf5::read_reals(root, "std", path).value_or(normalization.std);
}

void check_normalization(const std::string& path, const DatasetInfo& info) {
  const std::int64_t channels = info.feature_shape[0];
  check_values(path, "mean", info.normalization.mean, channels, false);
  check_values(path, "std", info.normalization.std, channels, true);
}

void write_header(hid_t root, const std::string& path, const DatasetInfo& info) {
  hdf5::write_text(root, "format", std::string(dataset_format), path);
  hdf5::write_integer(root, "version", dataset_version, path);
  hdf5::write_text(root, "name", info.name, path);
  hdf5::write_integer(root, "classes", info.classes, path);
  if (!info.class_names.empty()) hdf5::write_texts(root, "class_names", info.class_names, path);
  hdf5::write_reals(root, "scale", std::span(&info.normalization.scale, 1), path);
  hdf5::write_reals(root, "mean", info.normalization.mean, path);
  hdf5::write_reals(root, "std", info.normalization.std, path);
}

}  // namespace lockstep::data
