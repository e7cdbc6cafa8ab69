#include "framework/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double bytes;
};

constexpr std::array units = {
    Unit{"", 1},         Unit{"b", 1},        Unit{"kib", 0x1p10}, Unit{"mib", 0x1p20},
    Unit{"gib", 0x1p30}, Unit{"tib", 0x1p40}, Unit{"kb", 1e3},     Unit{"mb", 1e6},
    Unit{"gb", 1e9},     Unit{"tb", 1e12},
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string format_minutes(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  const std::int64_t minutes = (whole + 30) / 60;
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array names = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.95 would be shown as 1024.0.
  while (value >= 1023.95 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, names[unit]);
}

std::string format_duration(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 59.95) return (seconds < 0 ? "-" : "") + format_minutes(size);
  if (size >= 0.99995 || size == 0) return fmt::format("{:.1f} s", seconds);
  if (size >= 0.99995e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (size >= 0.9995e-6) return fmt::format("{:.1f} us", seconds * 1e6);
  return fmt::format("{:.0f} ns", seconds * 1e9);
}

std::uint64_t parse_bytes(std::string_view text) {
  const auto fail = [&](std::string_view why) {
    return ConfigError(fmt::format(
        "'{}' is not a size: {}, expected a number and a unit such as '4096', '64KiB' or '1.5GiB'",
        text, why));
  };
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(value)) throw fail("no number");
  if (value < 0) throw fail("it is negative");
  std::string_view name(rest, static_cast<std::size_t>(end - rest));
  while (name.starts_with(' ')) name.remove_prefix(1);
  const auto* const unit = std::ranges::find(units, lower(name), &Unit::name);
  if (unit == units.end()) throw fail(fmt::format("unknown unit '{}'", name));
  const double bytes = value * unit->bytes;
  if (bytes >= 0x1p63) throw fail("it is too large");
  return static_cast<std::uint64_t>(std::llround(bytes));
}

}  // namespace lockstep::base
