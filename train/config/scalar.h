// Single values between YAML text and OptionValue.
#pragma once

#include <string>
#include <string_view>

#include "framework/base/option.h"

namespace lockstep::train {

// A plain (unquoted) scalar as the core schema of YAML 1.2 reads it: null, a truth value, an
// integer, a real number (.inf and .nan too) or else text. So `on`, `no` and `0x10` are text.
base::OptionValue read_plain_scalar(std::string_view text);

// The value as YAML that reads back as the same value: text is quoted where it has to be, sizes in
// bytes get the largest unit that divides them.
std::string write_value(base::OptionKind kind, const base::OptionValue& value);

}  // namespace lockstep::train
