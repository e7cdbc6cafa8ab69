#include "train/config/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace lockstep::train {
namespace {

using base::OptionKind;
using base::OptionValue;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

template <class T>
std::optional<T> read_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", c);
    } else {
      result += c;
    }
  }
  return result + '"';
}

// Whether the text stands for itself without quotes, in a block or in a list.
bool is_plain(std::string_view text) {
  const auto harmless = [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '/' || c == '-' || c == '+';
  };
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, harmless) &&
         std::holds_alternative<std::string>(read_plain_scalar(text));
}

std::string write_bytes(std::int64_t bytes) {
  constexpr std::array units = {"TiB", "GiB", "MiB", "KiB"};
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::int64_t unit = std::int64_t{1} << (10 * (units.size() - i));
    if (bytes != 0 && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, units[i]);
  }
  return fmt::format("{}", bytes);
}

}  // namespace

OptionValue read_plain_scalar(std::string_view text) {
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return {};
  if (is_one_of(text, {"true", "True", "TRUE"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE"})) return false;

  std::string_view number = text;
  const bool negative = number.front() == '-';
  if (negative || number.front() == '+') number.remove_prefix(1);
  if (is_one_of(number, {".inf", ".Inf", ".INF"})) return negative ? -INFINITY : INFINITY;
  if (is_one_of(text, {".nan", ".NaN", ".NAN"})) return NAN;
  // from_chars reads words such as "infinity" too.
  const std::string_view after_point = number.starts_with('.') ? number.substr(1) : number;
  if (after_point.empty() || !is_digit(after_point.front())) return std::string(text);
  if (const auto integer = read_number<std::int64_t>(number))
    return negative ? -*integer : *integer;
  if (const auto real = read_number<double>(number)) return negative ? -*real : *real;
  return std::string(text);
}

std::string write_value(OptionKind kind, const OptionValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    return is_plain(*text) ? *text : quoted(*text);
  }
  if (const auto* bytes = std::get_if<std::int64_t>(&value);
      bytes != nullptr && kind == OptionKind::bytes) {
    return write_bytes(*bytes);
  }
  return base::to_string(value);
}

}  // namespace lockstep::train
