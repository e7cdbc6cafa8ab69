// How ProductPrecision is spelled.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/kernels/operations.h"

namespace lockstep::kernels {

std::vector<std::string> product_precision_names();
// Throws UsageError with the names there are.
ProductPrecision product_precision_from_name(std::string_view name);

}  // namespace lockstep::kernels
