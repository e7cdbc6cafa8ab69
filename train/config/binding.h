// Joins a key of the schema to the member of Config that holds it.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <variant>

#include "framework/base/dtype.h"
#include "train/config/schema.h"

namespace lockstep::train {

// How a member's type is held as an OptionValue. An absent optional is null.
template <class T>
struct Held {
  static base::OptionValue from(const T& value) { return value; }
  static T to(const base::OptionValue& value) { return std::get<T>(value); }
};

template <std::integral T>
requires(!std::same_as<T, bool>) struct Held<T> {  // the key's range keeps it within T
  static base::OptionValue from(T value) { return static_cast<std::int64_t>(value); }
  static T to(const base::OptionValue& value) {
    return static_cast<T>(std::get<std::int64_t>(value));
  }
};

template <>
struct Held<DType> {
  static base::OptionValue from(DType value) { return std::string(base::name_of(value)); }
  static DType to(const base::OptionValue& value) {
    return base::dtype_from_name(std::get<std::string>(value));
  }
};

template <class T>
struct Held<std::optional<T>> {
  static base::OptionValue from(const std::optional<T>& value) {
    return value ? Held<T>::from(*value) : base::OptionValue();
  }
  static std::optional<T> to(const base::OptionValue& value) {
    if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
    return Held<T>::to(value);
  }
};

namespace detail {

template <class T>
Key member_key(const std::string& section, const OptionSpec& spec, auto access) {
  Key key{.section = section,
          .spec = spec,
          .get = [access](const Config& config) { return Held<T>::from(access(config)); },
          .set = [access](Config& config,
                          const base::OptionValue& value) { access(config) = Held<T>::to(value); }};
  if (!key.spec.required) key.spec.default_value = key.get(Config());
  return key;
}

}  // namespace detail

template <class T>
Key member_key(T Config::*member, const OptionSpec& spec) {
  return detail::member_key<T>(
      "", spec, [member](auto& config) -> auto& { return config.*member; });
}

template <class S, class T>
Key member_key(const std::string& section, S Config::*in, T S::*member, const OptionSpec& spec) {
  return detail::member_key<T>(
      section, spec, [ in, member ](auto& config) -> auto& { return config.*in.*member; });
}

// A member that is absent where the file says `word` ("auto") instead of a value.
template <class S, class T>
Key member_or_word_key(const std::string& section, S Config::*in, std::optional<T> S::*member,
                       const std::string& word, OptionSpec spec) {
  spec.words = {word};
  Key key = member_key(section, in, member, spec);
  key.get = [get = key.get, word](const Config& config) {
    base::OptionValue value = get(config);
    return std::holds_alternative<std::monostate>(value) ? base::OptionValue(word) : value;
  };
  key.set = [set = key.set](Config& config, const base::OptionValue& value) {
    set(config, std::holds_alternative<std::string>(value) ? base::OptionValue() : value);
  };
  key.spec.default_value = key.get(Config());
  return key;
}

}  // namespace lockstep::train
