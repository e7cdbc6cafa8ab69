#include "framework/base/dtype.h"

#include <fmt/format.h>

#include <array>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::size_t size;
  bool floating;
};

// In the order of the enumerators.
constexpr std::array dtypes = {
    DTypeInfo{DType::float32, "float32", 4, true},   DTypeInfo{DType::float64, "float64", 8, true},
    DTypeInfo{DType::bfloat16, "bfloat16", 2, true}, DTypeInfo{DType::float16, "float16", 2, true},
    DTypeInfo{DType::int32, "int32", 4, false},      DTypeInfo{DType::int64, "int64", 8, false},
    DTypeInfo{DType::uint8, "uint8", 1, false},
};

const DTypeInfo& info(DType dtype) {
  return dtypes[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::size_t size_of(DType dtype) {
  return info(dtype).size;
}

std::string_view name_of(DType dtype) {
  return info(dtype).name;
}

bool is_floating(DType dtype) {
  return info(dtype).floating;
}

DType dtype_from_name(std::string_view name) {
  std::string known;
  for (const DTypeInfo& candidate : dtypes) {
    if (candidate.name == name) return candidate.dtype;
    known += known.empty() ? "" : ", ";
    known += candidate.name;
  }
  throw UsageError(fmt::format("unknown dtype '{}', expected one of: {}", name, known));
}

}  // namespace lockstep::base
