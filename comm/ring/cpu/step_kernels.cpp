#include "comm/ring/cpu/reduce_kernels.h"
#include "comm/ring/cpu/reduce_operations.h"

namespace lockstep::comm::ring {

namespace {

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

template <class T, class Op, bool average>
constexpr StepKernels kernels_of = {sizeof(T), sizeof(Accumulator<T>), load<T>, combine<T, Op>,
                                    finish<T, average>};

}  // namespace

const StepKernels& step_kernels(DType dtype, ReduceOp op) {
  return base::visit_dtype(dtype, [&](auto tag) -> const StepKernels& {
    using T = typename decltype(tag)::type;
    if (op == ReduceOp::avg) return kernels_of<T, Sum, true>;
    return visit_op(op, [](auto operation) -> const StepKernels& {
      return kernels_of<T, decltype(operation), false>;
    });
  });
}

DType accumulator_of(DType dtype) {
  return base::visit_dtype(
      dtype, [](auto tag) { return base::dtype_of<Accumulator<typename decltype(tag)::type>>(); });
}

}  // namespace lockstep::comm::ring
