#include "comm/mpi/mpi_transport.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "comm/mpi/seats.h"

namespace lockstep::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

void check(const char* error) {
  if (error != nullptr) throw TransportError(TransportError::Kind::lost, -1, error);
}

void check_start(const char* error) {
  if (error != nullptr) throw StartupError(std::string("backend mpi: ") + error);
}

// MPI wakes nobody, so a rank that waits has to look again and again: eagerly at first, letting
// others run, then at longer and longer intervals, so that one that waits for long costs nothing.
class Patience {
 public:
  void pass_time(const LookAround& look_around) {
    const auto now = device::Clock::now();
    if (now - start_ < eager) {
      sched_yield();
      return;
    }
    std::this_thread::sleep_for(std::min<microseconds>(
        longest_sleep, std::chrono::duration_cast<microseconds>(now - start_) / 8));
    if (now < next_look_) return;
    look_around();
    next_look_ = device::Clock::now() + between_looks;
  }

 private:
  static constexpr microseconds eager{500};
  static constexpr microseconds longest_sleep{1000};
  static constexpr milliseconds between_looks{40};

  device::Deadline start_ = device::Clock::now();
  device::Deadline next_look_ = start_ + milliseconds(10);
};

}  // namespace

MpiSession::MpiSession(const MpiApi& api, Descriptor seat) : api_(api), seat_(std::move(seat)) {
  check_start(api_.initialize(&world_));
}

MpiSession::~MpiSession() {
  if (given_up_) return;
  api_.release(world_);
  api_.finalize();
  give_back_seat(seat_);
}

MpiTransport::MpiTransport(std::shared_ptr<MpiSession> session, MpiGroup* group)
    : session_(std::move(session)),
      group_(group),
      rank_(api().rank(group)),
      size_(api().size(group)),
      headers_(static_cast<std::size_t>(size_)) {}

MpiTransport::~MpiTransport() {
  if (group_ != session_->world()) api().release(group_);
}

void MpiTransport::exchange(std::span<Signature> by_rank, device::Deadline deadline,
                            const LookAround& look_around) {
  sent_header_ = by_rank[static_cast<std::size_t>(rank_)];
  MpiExchange* exchange = nullptr;
  const char* const error =
      api().start_exchange(group_, &sent_header_, headers_.data(), sizeof(Signature), &exchange);
  const std::unique_ptr<MpiExchange, void (*)(MpiExchange*)> owner(exchange,
                                                                   api().release_exchange);
  check(error);
  Patience patience;
  for (int missing = 0;;) {
    check(api().poll_exchange(exchange, &missing));
    if (missing < 0) break;
    if (device::Clock::now() >= deadline)
      throw TransportError(TransportError::Kind::late, missing, "no message came");
    patience.pass_time(look_around);
  }
  headers_[static_cast<std::size_t>(rank_)] = sent_header_;
  std::copy(headers_.begin(), headers_.end(), by_rank.begin());
}

void MpiTransport::all_reduce(const Range& data, ReduceOp op, device::Deadline) {
  check(api().all_reduce(group_, data.data, data.count, data.dtype, op));
}

void MpiTransport::reduce(const Range& data, ReduceOp op, int root, device::Deadline) {
  check(api().reduce(group_, data.data, data.count, data.dtype, op, root));
}

std::vector<std::int64_t> MpiTransport::borders(std::int64_t count, std::int64_t unit) const {
  std::vector<std::int64_t> all;
  for (int r = 0; r < size_; ++r) all.push_back(slice_of(count, r, size_).begin * unit);
  all.push_back(count * unit);
  return all;
}

void MpiTransport::reduce_scatter(const Range& data, ReduceOp op, device::Deadline) {
  check(api().reduce_scatter(group_, data.data, borders(data.count, 1).data(), data.dtype, op));
}

void MpiTransport::all_gather(const Range& data, device::Deadline) {
  const auto element = static_cast<std::int64_t>(base::size_of(data.dtype));
  check(api().all_gather(group_, data.data, borders(data.count, element).data()));
}

void MpiTransport::broadcast(const Range& data, int root, device::Deadline) {
  check(api().broadcast(group_, data.data, static_cast<std::int64_t>(data.bytes()), root));
}

void MpiTransport::all_to_all(const Range& send, const Range& receive, device::Deadline) {
  check(api().all_to_all(group_, send.data, receive.data,
                         static_cast<std::int64_t>(send.bytes()) / size_));
}

std::unique_ptr<Transport> MpiTransport::split(std::span<const int> members, Store&,
                                               const std::string&, device::Deadline) {
  MpiGroup* part = nullptr;
  // The first member's rank stands for the part: no two have it in common.
  const int color = members.empty() ? -1 : *std::min_element(members.begin(), members.end());
  const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  check(api().split(group_, color, static_cast<int>(place), &part));
  return part == nullptr ? nullptr : std::make_unique<MpiTransport>(session_, part);
}

}  // namespace lockstep::comm
