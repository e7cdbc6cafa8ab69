#include "comm/ring/cpu/reduce_kernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace lockstep::comm::ring {

namespace {

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
  static A apply(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;
      return static_cast<A>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};

// A NaN on either side stays: it compares false, and is then the only value that differs from
// itself.
struct Max {
  template <class A>
  static A apply(A a, A b) {
    return (a < b || b != b) ? b : a;
  }
};

struct Min {
  template <class A>
  static A apply(A a, A b) {
    return (b < a || b != b) ? b : a;
  }
};

template <class T>
void load(void* acc, const void* in, std::size_t count) {
  using A = Accumulator<T>;
  auto* a = static_cast<A*>(acc);
  const auto* x = static_cast<const T*>(in);
  for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<A>(x[i]);
}

template <class T, class Op>
void combine(void* out, const void* acc, const void* in, std::size_t count) {
  using A = Accumulator<T>;
  auto* y = static_cast<A*>(out);
  const auto* a = static_cast<const A*>(acc);
  const auto* x = static_cast<const T*>(in);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) y[i] = Op::apply(a[i], static_cast<A>(x[i]));
}

template <class T, bool average>
void finish(void* out, const void* acc, std::size_t count, int ranks) {
  using A = Accumulator<T>;
  auto* y = static_cast<T*>(out);
  const auto* a = static_cast<const A*>(acc);
  const auto divisor = static_cast<A>(ranks);
  for (std::size_t i = 0; i < count; ++i)
    y[i] = static_cast<T>(average ? static_cast<A>(a[i] / divisor) : a[i]);
}

template <class T, class Op, bool average = false>
constexpr ReduceKernels kernels_of = {sizeof(T), sizeof(Accumulator<T>), load<T>, combine<T, Op>,
                                      finish<T, average>};

}  // namespace

const ReduceKernels& reduce_kernels(DType dtype, ReduceOp op) {
  return base::visit_dtype(dtype, [&](auto tag) -> const ReduceKernels& {
    using T = typename decltype(tag)::type;
    switch (op) {
      case ReduceOp::sum:
        return kernels_of<T, Sum>;
      case ReduceOp::avg:
        return kernels_of<T, Sum, true>;
      case ReduceOp::max:
        return kernels_of<T, Max>;
      case ReduceOp::min:
        return kernels_of<T, Min>;
    }
    __builtin_unreachable();
  });
}

void reduce_to_all(const ReduceKernels& kernels, std::span<const std::byte* const> inputs,
                   std::span<std::byte* const> outputs, std::size_t elements) {
  // Small enough for the accumulators and the block of one input to stay in the first-level cache.
  constexpr std::size_t block_bytes = 8192;
  alignas(64) std::byte accumulators[block_bytes];
  const std::size_t block = block_bytes / kernels.accumulator_bytes;
  for (std::size_t begin = 0; begin < elements; begin += block) {
    const std::size_t count = std::min(block, elements - begin);
    const std::size_t offset = begin * kernels.element_bytes;
    kernels.load(accumulators, inputs[0] + offset, count);
    for (const std::byte* input : inputs.subspan(1))
      kernels.combine(accumulators, accumulators, input + offset, count);
    for (std::byte* output : outputs)
      kernels.finish(output + offset, accumulators, count, static_cast<int>(inputs.size()));
  }
}

}  // namespace lockstep::comm::ring
