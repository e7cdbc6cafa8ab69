#include "framework/kernels/product_precision.h"

#include <fmt/format.h>

#include <array>

#include "framework/base/error.h"

namespace lockstep::kernels {
namespace {

struct Named {
  std::string_view name;
  ProductPrecision precision;
};

constexpr std::array<Named, 3> all = {{{"float32", ProductPrecision::float32},
                                       {"tf32", ProductPrecision::tf32},
                                       {"bfloat16", ProductPrecision::bfloat16}}};

}  // namespace

std::vector<std::string> product_precision_names() {
  std::vector<std::string> names;
  for (const Named& named : all) names.emplace_back(named.name);
  return names;
}

ProductPrecision product_precision_from_name(std::string_view name) {
  for (const Named& named : all)
    if (named.name == name) return named.precision;
  throw UsageError(fmt::format("precision of products: found '{}', expected {}", name,
                               fmt::join(product_precision_names(), ", ")));
}

}  // namespace lockstep::kernels
