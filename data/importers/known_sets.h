// Class names of data sets that come without them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

// Empty for a set that is not known.
std::vector<std::string> known_class_names(std::string_view set_name);

}  // namespace lockstep::data
