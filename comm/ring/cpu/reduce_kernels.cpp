#include "comm/ring/cpu/reduce_kernels.h"

#include <algorithm>
#include <array>
#include <utility>

#include "comm/ring/cpu/reduce_operations.h"

namespace lockstep::comm::ring {

namespace {

// More inputs than this are read in several passes over a block of accumulators.
constexpr std::size_t max_streams = 8;

// One pass: reduces `streams` inputs, after what `before` holds unless it is null, into `after` if
// that is set, else finishes into the outputs. Accumulators are counted from `begin` on, elements
// from 0.
struct Pass {
  const void* before = nullptr;
  void* after = nullptr;
  const std::byte* const* from = nullptr;
  std::span<std::byte* const> to;
  std::size_t begin = 0, end = 0;
  int divisor = 1;
};

// `lanes` elements from i on.
template <class T, class Op, std::size_t streams, std::size_t lanes>
inline void reduce_lanes(const Pass& pass, const std::array<const T*, streams>& from,
                         std::size_t i) {
  using A = Accumulator<T>;
  A acc[lanes];
  if (pass.before) {
    const A* before = static_cast<const A*>(pass.before) + (i - pass.begin);
    for (std::size_t k = 0; k < lanes; ++k)
      acc[k] = Op::apply(before[k], static_cast<A>(from[0][i + k]));
  } else {
    for (std::size_t k = 0; k < lanes; ++k) acc[k] = static_cast<A>(from[0][i + k]);
  }
#pragma GCC unroll 8
  for (std::size_t s = 1; s < streams; ++s)
    for (std::size_t k = 0; k < lanes; ++k)
      acc[k] = Op::apply(acc[k], static_cast<A>(from[s][i + k]));
  if (pass.after) {
    A* after = static_cast<A*>(pass.after) + (i - pass.begin);
    for (std::size_t k = 0; k < lanes; ++k) after[k] = acc[k];
    return;
  }
  if (pass.divisor != 1)
    for (std::size_t k = 0; k < lanes; ++k)
      acc[k] = static_cast<A>(acc[k] / static_cast<A>(pass.divisor));
  for (std::byte* out : pass.to) {
    T* y = reinterpret_cast<T*>(out) + i;
    for (std::size_t k = 0; k < lanes; ++k) y[k] = static_cast<T>(acc[k]);
  }
}

template <class T, class Op, std::size_t streams>
void reduce_pass(const Pass& pass) {
  constexpr std::size_t lanes = 64 / sizeof(Accumulator<T>);
  std::array<const T*, streams> from;
  for (std::size_t s = 0; s < streams; ++s) from[s] = reinterpret_cast<const T*>(pass.from[s]);
  std::size_t i = pass.begin;
  for (; i + lanes <= pass.end; i += lanes) reduce_lanes<T, Op, streams, lanes>(pass, from, i);
  for (; i < pass.end; ++i) reduce_lanes<T, Op, streams, 1>(pass, from, i);
}

using PassFunction = void (*)(const Pass&);

template <class T, class Op, std::size_t... indices>
constexpr std::array<PassFunction, max_streams> passes_of(std::index_sequence<indices...>) {
  return {reduce_pass<T, Op, indices + 1>...};
}

// By number of streams, less one.
const std::array<PassFunction, max_streams>& passes(DType dtype, ReduceOp op) {
  return base::visit_dtype(dtype, [&](auto tag) -> const std::array<PassFunction, max_streams>& {
    using T = typename decltype(tag)::type;
    return visit_op(op, [](auto operation) -> const std::array<PassFunction, max_streams>& {
      static constexpr auto table =
          passes_of<T, decltype(operation)>(std::make_index_sequence<max_streams>());
      return table;
    });
  });
}

}  // namespace

void reduce_to_all(DType dtype, ReduceOp op, std::span<const std::byte* const> from,
                   std::span<std::byte* const> to, std::size_t count) {
  const auto& pass_of = passes(dtype, op);
  const int divisor = op == ReduceOp::avg ? static_cast<int>(from.size()) : 1;
  if (from.size() <= max_streams) {
    pass_of[from.size() - 1](
        {.from = from.data(), .to = to, .begin = 0, .end = count, .divisor = divisor});
    return;
  }
  constexpr std::size_t block = 512;
  alignas(64) std::array<double, block> accumulators;  // the widest type
  for (std::size_t begin = 0; begin < count; begin += block) {
    for (std::size_t s = 0; s < from.size(); s += max_streams) {
      const std::size_t streams = std::min(max_streams, from.size() - s);
      const bool is_first = s == 0, is_last = s + streams == from.size();
      pass_of[streams - 1]({.before = is_first ? nullptr : accumulators.data(),
                            .after = is_last ? nullptr : accumulators.data(),
                            .from = from.data() + s,
                            .to = to,
                            .begin = begin,
                            .end = std::min(begin + block, count),
                            .divisor = divisor});
    }
  }
}

}  // namespace lockstep::comm::ring
