#include "comm/communicator.h"

#include <algorithm>

namespace lockstep::comm {

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
  }
  __builtin_unreachable();
}

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce:
      return "reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::barrier:
      return "barrier";
    case CollectiveKind::split:
      return "split";
  }
  __builtin_unreachable();
}

bool Work::done() const {
  return !state_ || state_->event().done();
}

void Work::wait() const {
  if (!state_) return;
  state_->event().wait();
  state_->throw_if_failed();
}

void Work::wait_on(Stream& stream) const {
  if (!state_) return;
  if (stream.is_inline()) {
    wait();
  } else {
    stream.wait(state_->event());
  }
}

Event Work::event() const {
  return state_ ? state_->event() : Event();
}

Work::Times Work::times() const {
  return state_ ? state_->times() : times_;
}

Work Work::launched() const {
  if (!state_) return *this;
  auto launched = state_->launched();
  return launched ? Work(std::move(launched)) : *this;
}

Capabilities all_capabilities(DeviceKind device) {
  using K = CollectiveKind;
  return {.dtypes = {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int32,
                     DType::int64, DType::uint8},
          .ops = {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min},
          .collectives = {K::all_reduce, K::reduce, K::reduce_scatter, K::all_gather, K::broadcast,
                          K::all_to_all, K::barrier, K::split},
          .devices = {device}};
}

bool Capabilities::reduces(DType dtype, ReduceOp op) const {
  const auto offers = [](const auto& list, auto wanted) {
    return std::find(list.begin(), list.end(), wanted) != list.end();
  };
  if (op == ReduceOp::avg && !base::is_floating(dtype)) return false;
  return offers(dtypes, dtype) && offers(ops, op);
}

}  // namespace lockstep::comm
