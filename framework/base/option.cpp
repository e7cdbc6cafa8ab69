#include "framework/base/option.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

// "relu, gelu or tanh"
std::string alternatives(std::span<const std::string> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

bool is_word_of(const OptionSpec& spec, const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr && std::ranges::find(spec.words, *text) != spec.words.end();
}

bool in_range(const Range& range, std::int64_t value) {
  return range.contains(static_cast<double>(value));
}

bool fits(const OptionSpec& spec, const OptionValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return spec.nullable;
  if (is_word_of(spec, value)) return true;
  switch (spec.kind) {
    case OptionKind::boolean:
      return std::holds_alternative<bool>(value);
    case OptionKind::integer:
    case OptionKind::bytes: {
      const auto* number = std::get_if<std::int64_t>(&value);
      return number != nullptr && in_range(spec.range, *number);
    }
    case OptionKind::integers: {
      const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
      return list != nullptr && std::ranges::all_of(*list, [&](std::int64_t element) {
               return in_range(spec.range, element);
             });
    }
    case OptionKind::real: {
      const auto* number = std::get_if<double>(&value);
      return number != nullptr && std::isfinite(*number) && spec.range.contains(*number);
    }
    case OptionKind::text:
      return std::holds_alternative<std::string>(value);
    case OptionKind::choice:
      return false;
  }
  __builtin_unreachable();
}

template <class T>
const T& get(const Options& options, const std::string& name, std::string_view kind) {
  const OptionValue& value = options.at(name);
  if (const T* found = std::get_if<T>(&value)) return *found;
  throw UsageError(fmt::format("option {}: holds {}, asked for {}", name, to_string(value), kind));
}

}  // namespace

std::string_view name_of(OptionKind kind) {
  switch (kind) {
    case OptionKind::boolean:
      return "true or false";
    case OptionKind::integer:
      return "integer";
    case OptionKind::integers:
      return "list of integers";
    case OptionKind::real:
      return "number";
    case OptionKind::bytes:
      return "size in bytes";
    case OptionKind::text:
      return "text";
    case OptionKind::choice:
      return "choice";
  }
  __builtin_unreachable();
}

std::string to_string(const OptionValue& value) {
  struct Writer {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(const std::vector<std::int64_t>& list) const {
      return fmt::format("[{}]", fmt::join(list, ", "));
    }
  };
  return std::visit(Writer{}, value);
}

bool Range::contains(double value) const {
  const bool above_minimum = without_minimum ? value > minimum : value >= minimum;
  const bool below_maximum = without_maximum ? value < maximum : value <= maximum;
  return above_minimum && below_maximum;
}

std::string to_string(const Range& range) {
  const bool bounded_below = range.minimum != -std::numeric_limits<double>::infinity();
  const bool bounded_above = range.maximum != std::numeric_limits<double>::infinity();
  if (bounded_below && bounded_above) {
    return fmt::format("in {}{}, {}{}", range.without_minimum ? '(' : '[', range.minimum,
                       range.maximum, range.without_maximum ? ')' : ']');
  }
  if (bounded_below) return fmt::format("{} {}", range.without_minimum ? ">" : ">=", range.minimum);
  if (bounded_above) return fmt::format("{} {}", range.without_maximum ? "<" : "<=", range.maximum);
  return "";
}

std::string describe(const OptionSpec& spec) {
  std::vector<std::string> ways = spec.words;
  if (spec.kind != OptionKind::choice) {
    std::string value(name_of(spec.kind));
    if (const std::string range = to_string(spec.range); !range.empty()) value += " " + range;
    ways.insert(ways.begin(), value);
  }
  if (spec.nullable) ways.emplace_back("null");
  return alternatives(ways);
}

OptionValue checked(const OptionSpec& spec, const OptionValue& value) {
  OptionValue held = value;
  if (const auto* number = std::get_if<std::int64_t>(&value);
      number != nullptr && spec.kind == OptionKind::real) {
    held = static_cast<double>(*number);
  }
  if (!fits(spec, held)) {
    throw ConfigError(
        fmt::format("{}: found {}, expected {}", spec.name, to_string(value), describe(spec)));
  }
  return held;
}

const OptionValue& Options::at(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw UsageError("option " + name + ": is not there");
  return found->second;
}

bool Options::boolean(const std::string& name) const {
  return get<bool>(*this, name, "a boolean");
}

std::int64_t Options::integer(const std::string& name) const {
  return get<std::int64_t>(*this, name, "an integer");
}

double Options::real(const std::string& name) const {
  return get<double>(*this, name, "a number");
}

const std::string& Options::text(const std::string& name) const {
  return get<std::string>(*this, name, "text");
}

const std::vector<std::int64_t>& Options::integers(const std::string& name) const {
  return get<std::vector<std::int64_t>>(*this, name, "a list of integers");
}

bool Options::is_null(const std::string& name) const {
  return std::holds_alternative<std::monostate>(at(name));
}

bool Options::is_word(const std::string& name) const {
  return std::holds_alternative<std::string>(at(name));
}

Options complete(std::span<const OptionSpec> specs, const Options& given) {
  for (const auto& [name, value] : given.values()) {
    if (std::ranges::find(specs, name, &OptionSpec::name) == specs.end()) {
      std::vector<std::string> known;
      for (const OptionSpec& spec : specs) known.push_back(spec.name);
      throw ConfigError(
          fmt::format("{}: no such option, known are {}", name, fmt::join(known, ", ")));
    }
  }
  Options all;
  for (const OptionSpec& spec : specs) {
    if (given.contains(spec.name)) {
      all.set(spec.name, checked(spec, given.at(spec.name)));
    } else if (spec.required) {
      throw ConfigError(fmt::format("{}: is missing, expected {}", spec.name, describe(spec)));
    } else {
      all.set(spec.name, checked(spec, spec.default_value));
    }
  }
  return all;
}

}  // namespace lockstep::base
