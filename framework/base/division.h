// Division that rounds up; kernels call it too.
#pragma once

#include <cstdint>

namespace lockstep::base {

// How often `b` goes into `a`, rounded up; `a` >= 0, `b` > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace lockstep::base
