// CoreMask: the cores that a thread may run on, as a value that ranks can tell each other.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::comm {

struct CoreMask {
  static constexpr int most = 1024;  // cores beyond are not counted
  std::array<std::uint64_t, most / 64> words{};

  static CoreMask of_this_thread();
  int count() const;
  void add(const CoreMask& other);
};

}  // namespace lockstep::comm
