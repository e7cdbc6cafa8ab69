// The version of this program, such as "0.1.0".
#pragma once

#include <string_view>

namespace lockstep::train {

std::string_view program_version();

}  // namespace lockstep::train
