#include "comm/host_communicator.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>

namespace lockstep::comm {

// The state of one collective: also the event that streams wait for.
class HostCommunicator::HostWork final : public Work::State,
                                         public device::EventState,
                                         public std::enable_shared_from_this<HostWork> {
 public:
  bool done() const override { return done_.load(std::memory_order_acquire); }

  bool wait_until(device::Deadline deadline) const override {
    if (done()) return true;
    std::unique_lock lock(mutex_);
    const auto is_done = [this] { return done(); };
    if (deadline == device::Deadline::max()) {
      finished_.wait(lock, is_done);
      return true;
    }
    return finished_.wait_until(lock, deadline, is_done);
  }

  Event event() const override { return Event(shared_from_this()); }
  Work::Times times() const override { return times_; }

  // An exception object is not shared between threads: each waiter throws one of its own.
  void throw_if_failed() const override {
    if (failure_) throw RankError(failure_->rank, failure_->message);
  }

  void finish(Work::Times times, std::optional<Failure> failure) {
    const std::lock_guard lock(mutex_);
    times_ = times;
    failure_ = std::move(failure);
    done_.store(true, std::memory_order_release);
    finished_.notify_all();
  }

 private:
  std::atomic<bool> done_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable finished_;
  Work::Times times_;
  std::optional<Failure> failure_;
};

namespace {

void check_arguments(const Collective& call, const Communicator& communicator) {
  const int size = communicator.size();
  const Signature& s = call.signature;
  const auto refuse = [&](const std::string& why) {
    throw UsageError(
        fmt::format("{} of {} {}: {}", name_of(s.kind), s.count, base::name_of(s.dtype), why));
  };
  if (s.count < 0) refuse("the count is negative");
  if (s.count > 0 && call.data.data == nullptr) refuse("the memory is a null pointer");
  if ((s.kind == CollectiveKind::reduce || s.kind == CollectiveKind::broadcast) &&
      (s.root < 0 || s.root >= size))
    refuse(fmt::format("root {} is not in [0, {})", s.root, size));
  if ((s.kind == CollectiveKind::all_reduce || s.kind == CollectiveKind::reduce ||
       s.kind == CollectiveKind::reduce_scatter) &&
      !communicator.capabilities().reduces(s.dtype, s.op))
    refuse(fmt::format("backend {} does not offer {} of this type", communicator.backend(),
                       name_of(s.op)));
  if (s.kind != CollectiveKind::all_to_all) return;
  if (call.receive.count != s.count || call.receive.dtype != s.dtype)
    refuse(fmt::format("receives {} {}", call.receive.count, base::name_of(call.receive.dtype)));
  if (s.count % size != 0) refuse(fmt::format("the count is not a multiple of {} ranks", size));
  if (s.count == 0) return;
  if (call.receive.data == nullptr) refuse("the memory to receive is a null pointer");
  const auto* send = static_cast<const std::byte*>(call.data.data);
  const auto* receive = static_cast<const std::byte*>(call.receive.data);
  if (std::less<>()(send, receive + call.receive.bytes()) &&
      std::less<>()(receive, send + call.data.bytes()))
    refuse("the memory sent and received overlap");
}

}  // namespace

RankError late(const Collective& call, int rank, std::string_view verb) {
  const std::string who = rank < 0 ? "some rank" : fmt::format("rank {}", rank);
  return RankError(
      rank, fmt::format("{} did not {} {} within {:g} s", who, verb, to_string(call.signature),
                        std::chrono::duration<double>(call.timeout).count()));
}

Collective make_call(const Communicator& communicator, CollectiveKind kind, Range data, Tag tag,
                     ReduceOp op, int root, Range receive) {
  Collective call;
  call.signature = {
      .count = data.count, .tag = tag, .root = root, .kind = kind, .dtype = data.dtype, .op = op};
  call.data = data;
  call.receive = receive;
  check_arguments(call, communicator);
  return call;
}

Work HostCommunicator::all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) {
  return submit(CollectiveKind::all_reduce, data, stream, tag, op);
}

Work HostCommunicator::reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag) {
  return submit(CollectiveKind::reduce, data, stream, tag, op, root);
}

Work HostCommunicator::reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag) {
  return submit(CollectiveKind::reduce_scatter, data, stream, tag, op);
}

Work HostCommunicator::all_gather(Range data, Stream& stream, Tag tag) {
  return submit(CollectiveKind::all_gather, data, stream, tag);
}

Work HostCommunicator::broadcast(Range data, int root, Stream& stream, Tag tag) {
  return submit(CollectiveKind::broadcast, data, stream, tag, ReduceOp::sum, root);
}

Work HostCommunicator::all_to_all(Range send, Range receive, Stream& stream, Tag tag) {
  return submit(CollectiveKind::all_to_all, send, stream, tag, ReduceOp::sum, -1, receive);
}

Work HostCommunicator::barrier(Stream& stream) {
  return submit(CollectiveKind::barrier, {.dtype = DType::uint8}, stream, no_tag);
}

std::unique_ptr<Communicator> HostCommunicator::split(int color, int key) {
  Collective call;
  call.signature = {.sequence = next_sequence_++, .kind = CollectiveKind::split};
  std::unique_ptr<Communicator> part;
  guarded(call, [&] {
    start_clock(call, device::Clock::now());
    part = do_split(call, color, key);
  });
  if (failure_) throw RankError(failure_->rank, failure_->message);
  return part;
}

Work HostCommunicator::submit(CollectiveKind kind, Range data, Stream& stream, Tag tag, ReduceOp op,
                              int root, Range receive) {
  Collective call = make_call(*this, kind, data, tag, op, root, receive);
  call.signature.sequence = next_sequence_++;
  if (stream.is_inline()) {
    const Work::Times times = run(call);
    if (!failure_) return Work(times);  // nobody waits, so it needs no state
    auto work = std::make_shared<HostWork>();
    work->finish(times, failure_);
    return Work(std::move(work));
  }
  auto work = std::make_shared<HostWork>();
  stream.enqueue([this, call, work]() mutable {
    const Work::Times times = run(call);
    work->finish(times, failure_);
  });
  return Work(std::move(work));
}

void HostCommunicator::start_clock(Collective& call, device::Clock::time_point now) const {
  call.timeout = options_.timeout;
  call.deadline = now + options_.timeout;
}

Work::Times HostCommunicator::run(Collective& call) {
  Work::Times times;
  times.start = device::Clock::now();
  start_clock(call, times.start);
  guarded(call, [&] { dispatch(call); });
  times.end = device::Clock::now();
  return times;
}

template <class Body>
void HostCommunicator::guarded(const Collective& call, Body&& body) {
  if (failure_) return;
  try {
    body();
    return;
  } catch (const RankError& error) {
    failure_ = {error.rank(), error.what()};
  } catch (const std::exception& error) {
    failure_ = {rank(), fmt::format("rank {} failed in {}: {}", rank(), to_string(call.signature),
                                    error.what())};
  }
  // The others may be waiting for this rank: they must end too, and with this cause.
  abort(failure_->rank, failure_->message);
}

void HostCommunicator::dispatch(const Collective& call) {
  if (size() == 1) {
    // A reduction over one rank, the average included, is what it was.
    if (call.signature.kind == CollectiveKind::all_to_all && call.data.count > 0)
      std::memcpy(call.receive.data, call.data.data, call.data.bytes());
    return;
  }
  switch (call.signature.kind) {
    case CollectiveKind::all_reduce:
      return do_all_reduce(call);
    case CollectiveKind::reduce:
      return do_reduce(call);
    case CollectiveKind::reduce_scatter:
      return do_reduce_scatter(call);
    case CollectiveKind::all_gather:
      return do_all_gather(call);
    case CollectiveKind::broadcast:
      return do_broadcast(call);
    case CollectiveKind::all_to_all:
      return do_all_to_all(call);
    case CollectiveKind::barrier:
      return do_barrier(call);
    case CollectiveKind::split:
      break;  // blocking: never submitted
  }
}

}  // namespace lockstep::comm
