// When a vector of a basis counts as dependent on those before it; the same on the host and on
// GPUs.
#pragma once

#include <type_traits>

namespace lockstep::train {

// What is left of it, once their parts are taken off, is this share of its length or less.
template <class T>
inline constexpr double dependent_share = std::is_same_v<T, float> ? 1e-5 : 1e-12;

}  // namespace lockstep::train
