// The operations of reductions and the types they run in; see reduce_kernels.h.
#pragma once

#include <type_traits>

#include "comm/communicator.h"
#include "framework/base/dtype.h"

namespace lockstep::comm::ring {

template <class T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<bfloat16> {
  using type = float;
};
template <>
struct AccumulatorOf<float16> {
  using type = float;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

struct Sum {
  template <class A>
  static constexpr A apply(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;
      return static_cast<A>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};

// A NaN on either side stays: it compares false, and is the only value that differs from itself.
struct Max {
  template <class A>
  static constexpr A apply(A a, A b) {
    return (a < b || b != b) ? b : a;
  }
};

struct Min {
  template <class A>
  static constexpr A apply(A a, A b) {
    return (b < a || b != b) ? b : a;
  }
};

// Calls f(Op()) with the operation; for avg with Sum.
template <class F>
constexpr decltype(auto) visit_op(ReduceOp op, F&& f) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return f(Sum());
    case ReduceOp::max:
      return f(Max());
    case ReduceOp::min:
      return f(Min());
  }
  __builtin_unreachable();
}

}  // namespace lockstep::comm::ring
