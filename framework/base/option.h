// Options as data: what a configurable thing can be told, in a table that says name, kind, default,
// range and meaning of each. A model or optimizer declares its table beside its code; train/config
// builds the schema of the configuration file, its checks and its documentation from the tables.
//
// Values are plain: null, a truth value, an integer, a real number, text or a list of integers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::base {

enum class OptionKind : std::uint8_t {
  boolean,
  integer,
  integers,  // a list, may be empty
  real,      // finite; an integer is taken too
  bytes,     // a whole number of bytes; written with a unit in a file ("1GiB"), held as an integer
  text,
  choice,  // one of OptionSpec::words
};

std::string_view name_of(OptionKind kind);  // "integer", "list of integers", ...

// std::monostate is null.
using OptionValue = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                                 std::vector<std::int64_t>>;

// As YAML would write it: null, true, [512, 256], relu.
std::string to_string(const OptionValue& value);

// The numbers that are allowed; for a list, each element.
struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool without_minimum = false;  // the bound itself is not allowed
  bool without_maximum = false;

  bool contains(double value) const;  // false for NaN
};

inline Range at_least(double minimum) {
  return {.minimum = minimum};
}
inline Range above(double minimum) {
  return {.minimum = minimum, .without_minimum = true};
}
inline Range between(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum};
}
inline Range from_below(double minimum, double maximum) {  // [minimum, maximum)
  return {.minimum = minimum, .maximum = maximum, .without_maximum = true};
}

// ">= 1", "> 0", "in [0, 1)"; empty when nothing is excluded.
std::string to_string(const Range& range);

struct OptionSpec {
  std::string name = {};
  OptionKind kind = OptionKind::integer;
  OptionValue default_value = {};
  std::string doc = {};  // one or two sentences for a user, with the unit
  Range range = {};
  // Of a choice: all of them. Of another kind: words taken in the place of a value ("auto").
  std::vector<std::string> words = {};
  bool nullable = false;
  bool required = false;  // has to be given; default_value means nothing
};

// What is allowed, for messages and documentation: "integer >= 1", "relu, gelu, tanh or sigmoid",
// "integer >= 1 or auto", "number > 0 or null".
std::string describe(const OptionSpec& spec);

// `value` as the spec's kind holds it (an integer given for a real becomes one). Throws ConfigError
// "<name>: found <value>, expected <description>".
OptionValue checked(const OptionSpec& spec, const OptionValue& value);

// Values by name.
class Options {
 public:
  Options() = default;
  Options(std::initializer_list<std::pair<const std::string, OptionValue>> values)
      : values_(values) {}

  void set(const std::string& name, OptionValue value) { values_[name] = std::move(value); }
  bool contains(const std::string& name) const { return values_.count(name) != 0; }
  const std::map<std::string, OptionValue>& values() const { return values_; }

  // Each throws UsageError when the option is absent or holds something else.
  const OptionValue& at(const std::string& name) const;
  bool boolean(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  const std::string& text(const std::string& name) const;  // text, choices and words
  const std::vector<std::int64_t>& integers(const std::string& name) const;
  bool is_null(const std::string& name) const;
  bool is_word(const std::string& name) const;  // text, as against a number

  bool operator==(const Options&) const = default;

 private:
  std::map<std::string, OptionValue> values_;
};

// `given` checked against `specs` and completed with their defaults. Throws ConfigError: an unknown
// name (the message lists the known ones), a required one that is missing, a value that is not
// allowed.
Options complete(std::span<const OptionSpec> specs, const Options& given);

}  // namespace lockstep::base

namespace lockstep {
using base::Options;
using base::OptionSpec;
}  // namespace lockstep
