#include "comm/message/message_communicator.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/ring/cpu/reduce_kernels.h"

namespace lockstep::comm {
namespace {

// A rank that has lost a connection waits this long for somebody who knows why.
constexpr std::chrono::milliseconds patience_for_cause{1000};

bool is_narrow(DType dtype) {
  return dtype == DType::bfloat16 || dtype == DType::float16;
}

}  // namespace

MessageCommunicator::MessageCommunicator(std::unique_ptr<Transport> transport, Store& store,
                                         const std::string& prefix,
                                         const CommunicatorOptions& options,
                                         std::chrono::milliseconds start_timeout,
                                         std::unique_ptr<Group> host)
    : MessageCommunicator(std::move(transport), store, prefix, options,
                          std::make_shared<FirstCause>(store, prefix + "/cause"), std::move(host),
                          device::Clock::now() + start_timeout) {
  if (size() == 1) return;
  try {
    transport_->exchange(signatures_, device::Clock::now() + start_timeout, look_around());
  } catch (const TransportError& error) {
    cause_->offer(error.rank(), error.what());
    throw StartupError(error.what());
  }
}

MessageCommunicator::MessageCommunicator(std::unique_ptr<Transport> transport, Store& store,
                                         const std::string& prefix,
                                         const CommunicatorOptions& options,
                                         std::shared_ptr<FirstCause> cause,
                                         std::unique_ptr<Group> host, device::Deadline deadline)
    : HostCommunicator(options),
      transport_(std::move(transport)),
      store_(store),
      prefix_(prefix),
      host_(std::move(host)),
      cause_(std::move(cause)),
      roll_call_(store, prefix, transport_->rank(), transport_->size()),
      capabilities_(capabilities_of(*transport_)),
      signatures_(static_cast<std::size_t>(transport_->size())) {
  if (host_) meeting_.emplace(*host_, deadline);
  cause_->on_offer([this](const RankError& error) {
    transport_->end_waits();
    if (host_) host_->abort(error.rank(), error.what());
  });
  if (!transport_->can_end_waits() && options.on_stuck)
    watch_.emplace(roll_call_, options.on_stuck);
}

MessageCommunicator::~MessageCommunicator() {
  if (size() > 1 && !cause_->heard()) {
    try {
      meet({.signature = {.sequence = leaving},
            .data = {},
            .receive = {},
            .timeout = options().timeout,
            .deadline = device::Clock::now() + options().timeout});
    } catch (const std::exception&) {
      // The others have failed or left; whatever was asked for here is done.
    }
  }
  cause_->on_offer(nullptr);
}

Capabilities MessageCommunicator::capabilities_of(const Transport& transport) {
  Capabilities all = all_capabilities(DeviceKind::cpu);
  all.wants_addressable_memory = transport.wants_addressable_memory();
  all.widens_16_bit = true;
  all.survives_loss = transport.can_end_waits();
  all.cost = transport.cost();
  return all;
}

void MessageCommunicator::abort(int rank, const std::string& cause) {
  cause_->offer(rank, cause);
}

LookAround MessageCommunicator::look_around() {
  return [this] {
    if (const auto cause = cause_->find(std::chrono::milliseconds(0))) throw *cause;
  };
}

bool MessageCommunicator::wants_check(const Signature& signature) {
  // A barrier is nothing but a meeting, and a split is rare.
  if (signature.kind == CollectiveKind::barrier || signature.kind == CollectiveKind::split)
    return true;
  if (options().check == AgreementCheck::off) return false;
  return options().check == AgreementCheck::every ||
         checked_.insert(hash_of_call(signature)).second;
}

void MessageCommunicator::meet(const Collective& call) {
  if (!meeting_) {
    signatures_[static_cast<std::size_t>(rank())] = call.signature;
    transport_->exchange(signatures_, call.deadline, look_around());
    return check_agreement(signatures_);
  }
  try {
    meeting_->meet(call);
  } catch (const RankError& error) {
    // Who does not come may wait in an earlier call for a rank that is stuck: the roll call tells.
    const bool is_late = device::Clock::now() + call.timeout / 4 >= call.deadline;
    if (error.rank() < 0 || !is_late) throw;
    throw TransportError(TransportError::Kind::late, -1, error.what());
  }
}

template <class Move>
void MessageCommunicator::perform(const Collective& call, Move&& move) {
  if (const auto cause = cause_->heard()) throw *cause;
  std::string_view verb = "arrive at";
  const StuckWatch::Guard guard(watch_, call);
  try {
    if (wants_check(call.signature)) meet(call);
    verb = "finish";
    if (call.data.count > 0) move();
  } catch (const TransportError& error) {
    throw_cause_of(error, call, verb);
  }
}

template <class Move>
void MessageCommunicator::perform_reduction(const Collective& call, const Slice& result,
                                            Move&& move) {
  const Range& data = call.data;
  const ReduceOp op = call.signature.op == ReduceOp::avg ? ReduceOp::sum : call.signature.op;
  const auto count = static_cast<std::size_t>(data.count);
  const auto& kernels = ring::step_kernels(data.dtype, call.signature.op);
  perform(call, [&] {
    Range moved = data;
    if (is_narrow(data.dtype)) {
      widened_.resize(count);
      kernels.load(widened_.data(), data.data, count);
      moved = {widened_.data(), data.count, DType::float32};
    }
    move(moved, op);
    if (moved.data == data.data && call.signature.op != ReduceOp::avg) return;
    kernels.finish(data.at(result.begin), moved.at(result.begin),
                   static_cast<std::size_t>(result.count()), size());
  });
}

void MessageCommunicator::throw_cause_of(const TransportError& error, const Collective& call,
                                         std::string_view verb) {
  const bool is_late = error.kind() == TransportError::Kind::late;
  roll_call_.answer(call.signature.sequence);  // another rank may be asking who is there
  if (const auto cause = cause_->find(is_late ? std::chrono::milliseconds(0) : patience_for_cause))
    throw *cause;
  if (is_late) throw overdue(roll_call_, call, error.rank(), verb);
  const std::string who =
      error.rank() < 0 ? std::string("some rank") : fmt::format("rank {}", error.rank());
  throw RankError(error.rank(), fmt::format("the connection to {} was lost in {}: {}", who,
                                            to_string(call.signature), error.what()));
}

void MessageCommunicator::do_all_reduce(const Collective& call) {
  perform_reduction(call, {0, call.data.count}, [&](const Range& data, ReduceOp op) {
    transport_->all_reduce(data, op, call.deadline);
  });
}

void MessageCommunicator::do_reduce(const Collective& call) {
  const int root = call.signature.root;
  const Slice result{0, rank() == root ? call.data.count : 0};
  perform_reduction(call, result, [&](const Range& data, ReduceOp op) {
    transport_->reduce(data, op, root, call.deadline);
  });
}

void MessageCommunicator::do_reduce_scatter(const Collective& call) {
  perform_reduction(
      call, slice_of(call.data.count, rank(), size()),
      [&](const Range& data, ReduceOp op) { transport_->reduce_scatter(data, op, call.deadline); });
}

void MessageCommunicator::do_all_gather(const Collective& call) {
  perform(call, [&] { transport_->all_gather(call.data, call.deadline); });
}

void MessageCommunicator::do_broadcast(const Collective& call) {
  perform(call, [&] { transport_->broadcast(call.data, call.signature.root, call.deadline); });
}

void MessageCommunicator::do_all_to_all(const Collective& call) {
  perform(call, [&] { transport_->all_to_all(call.data, call.receive, call.deadline); });
}

void MessageCommunicator::do_barrier(const Collective& call) {
  perform(call, [] {});
}

std::unique_ptr<Communicator> MessageCommunicator::do_split(const Collective& call, int color,
                                                            int key) {
  struct Wish {
    std::int64_t color, key;
  };
  std::vector<Wish> wishes(static_cast<std::size_t>(size()));
  wishes[static_cast<std::size_t>(rank())] = {color, key};
  std::vector<int> members;
  std::unique_ptr<Transport> part;
  std::unique_ptr<Group> host;
  const std::string prefix = fmt::format("{}/split{}.{}", prefix_, call.signature.sequence, color);
  perform(call, [] {});
  try {
    const Range range{wishes.data(), 2 * static_cast<std::int64_t>(size()), DType::int64};
    if (size() > 1) transport_->all_gather(range, call.deadline);
    for (int r = 0; r < size() && color >= 0; ++r)
      if (wishes[static_cast<std::size_t>(r)].color == color) members.push_back(r);
    std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
      return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
    });
    part = transport_->split(members, store_, prefix, call.deadline);
    if (host_) host = host_->split(color, key, call.deadline);
    if (part) {
      std::vector<Signature> meeting(members.size());
      part->exchange(meeting, call.deadline, look_around());
    }
  } catch (const TransportError& error) {
    throw_cause_of(error, call, "finish");
  }
  if (!part) return nullptr;
  return std::unique_ptr<Communicator>(new MessageCommunicator(
      std::move(part), store_, prefix, options(), cause_->make_part(prefix + "/cause"),
      std::move(host), call.deadline));
}

}  // namespace lockstep::comm
