// Counts the calls of operator new in the test program, on all threads.
#pragma once

#include <cstdint>

namespace lockstep::data {

std::int64_t allocation_count();

}  // namespace lockstep::data
