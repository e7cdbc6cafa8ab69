#include "comm/hierarchical/cuda/hierarchical_communicator.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "comm/hierarchical/pieces.h"
#include "comm/host_communicator.h"
#include "framework/device/cpu/cpu_context.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

// How long a rank that does not know whom to blame waits for one that does.
constexpr milliseconds patience{1000};

int index_of(const std::vector<int>& ranks, int rank) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

// What split() of a communicator makes is one of the same kind.
template <class T>
std::unique_ptr<T> split_off(T& whole, int color, int key) {
  return std::unique_ptr<T>(static_cast<T*>(whole.split(color, key).release()));
}

}  // namespace

// Why the ranks of both levels had to stop. Thread-safe; outlives the communicator in its Works.
class HierarchicalCommunicator::Failures {
 public:
  Failures(const HostMap& hosts, int rank, std::shared_ptr<FirstCause> cause)
      : mates_(hosts.ranks_of(hosts.host_of(rank))),
        lane_(hosts.ranks_of_lane(hosts.place_of(rank))),
        rank_(rank),
        cause_(std::move(cause)) {}

  const std::vector<int>& mates() const { return mates_; }
  const std::vector<int>& lane() const { return lane_; }
  FirstCause& cause() const { return *cause_; }

  // What ended a level from which the ring's stages fail too: it says more than they do.
  void note(const RankError& error, Level level) {
    const std::lock_guard lock(mutex_);
    if (!noted_) noted_ = in_the_world(error, level);
  }

  // Does a part of `call`; if it throws, throws the first cause, which ends the waits of all.
  template <class Part>
  auto check(const Signature& call, Level level, Part&& part) const {
    try {
      return part();
    } catch (const RankError& error) {
      const RankError own = in_the_world(error, level);
      throw_first(RankError(own.rank(), fmt::format("{} failed: {}", to_string(call), own.what())));
    } catch (const std::exception& error) {
      throw_first(RankError(
          rank_, fmt::format("rank {} failed in {}: {}", rank_, to_string(call), error.what())));
    }
  }

 private:
  RankError in_the_world(const RankError& error, Level level) const {
    if (level == Level::world) return error;
    const std::vector<int>& ranks = level == Level::inside ? mates_ : lane_;
    const bool known = error.rank() >= 0 && error.rank() < static_cast<int>(ranks.size());
    return {known ? ranks[static_cast<std::size_t>(error.rank())] : -1,
            fmt::format("{} (as numbered among {}{})", error.what(),
                        level == Level::inside ? "this host's " : "", text_of(ranks))};
  }

  [[noreturn]] void throw_first(const RankError& own) const {
    // Whoever ended this one's wait has said why before, or will soon.
    auto first = cause_->find(milliseconds(0));
    if (!first) first = noted();
    if (!first && own.rank() < 0) first = cause_->find(patience);
    const RankError told = first.value_or(own);
    cause_->offer(told.rank(), told.what());
    throw RankError(told.rank(), told.what());
  }

  std::optional<RankError> noted() const {
    const std::lock_guard lock(mutex_);
    return noted_;
  }

  std::vector<int> mates_, lane_;
  int rank_;
  std::shared_ptr<FirstCause> cause_;
  mutable std::mutex mutex_;
  std::optional<RankError> noted_;
};

// One collective: what it consists of, at which level.
class HierarchicalCommunicator::Course final : public Work::State {
 public:
  Course(std::shared_ptr<const Failures> failures, const Signature& call)
      : call_(call), failures_(std::move(failures)) {}

  const Signature& call() const { return call_; }
  void add(const Work& work, Level level) { parts_.push_back({work, level}); }
  void set_event(Event event) { done_ = std::move(event); }

  Event event() const override { return done_; }
  void throw_if_failed() const override {
    for (const Part& part : parts_) failures_->check(call_, part.level, [&] { part.work.wait(); });
  }
  Work::Times times() const override {
    Work::Times times = parts_.front().work.times();
    for (const Part& part : parts_) times.end = std::max(times.end, part.work.times().end);
    return times;
  }

 private:
  struct Part {
    Work work;
    Level level;
  };

  Signature call_;
  std::shared_ptr<const Failures> failures_;
  std::vector<Part> parts_;
  Event done_;
};

HierarchicalCommunicator::HierarchicalCommunicator(std::unique_ptr<Inside> inside,
                                                   std::unique_ptr<NcclCommunicator> world,
                                                   HostMap hosts, const device::CudaPlace& place,
                                                   Store& store, const std::string& prefix,
                                                   milliseconds start_timeout)
    : HierarchicalCommunicator(std::move(inside), std::move(world), std::move(hosts), place, store,
                               prefix, start_timeout,
                               std::make_shared<FirstCause>(store, prefix + "/cause")) {}

HierarchicalCommunicator::HierarchicalCommunicator(std::unique_ptr<Inside> inside,
                                                   std::unique_ptr<NcclCommunicator> world,
                                                   HostMap hosts, const device::CudaPlace& place,
                                                   Store& store, const std::string& prefix,
                                                   milliseconds start_timeout,
                                                   std::shared_ptr<FirstCause> cause)
    : hosts_(std::move(hosts)),
      place_(place),
      store_(store),
      prefix_(prefix),
      start_timeout_(start_timeout),
      inside_(std::move(inside)),
      world_(std::move(world)),
      lane_(split_off(*world_, hosts_.place_of(rank()), host())),
      outer_(place, device::StreamPriority::high, "between hosts"),
      lane_vouchers_(outer_, lane_->rank(), lane_->size()),
      world_vouchers_(outer_, rank(), size()),
      failures_(std::make_shared<Failures>(hosts_, rank(), std::move(cause))),
      checks_(device::make_thread_stream("both levels")) {
  const auto ends_inside = [&](Level level) {
    return [failures = failures_, inside = inside_.get(), level](const RankError& error) {
      failures->note(error, level);
      inside->abort(-1, error.what());
    };
  };
  world_->before_abort(ends_inside(Level::world));
  lane_->before_abort(ends_inside(Level::lane));
  failures_->cause().on_offer([this](const RankError& error) { end_waits(error); });
}

HierarchicalCommunicator::~HierarchicalCommunicator() {
  checks_.reset();  // what still fails is heard of
  failures_->cause().on_offer(nullptr);
}

void HierarchicalCommunicator::abort(int rank, const std::string& cause) {
  failures_->cause().offer(rank, cause);
}

// The ring first: a rank must not vouch for what NCCL was ended in the middle of. The world last:
// it ends waits of ranks that then look at their other levels.
void HierarchicalCommunicator::end_waits(const RankError& cause) {
  inside_->abort(index_of(failures_->mates(), cause.rank()), cause.what());
  lane_->abort(index_of(failures_->lane(), cause.rank()), cause.what());
  world_->abort(cause.rank(), cause.what());
}

std::unique_ptr<HierarchicalCommunicator::Course> HierarchicalCommunicator::begin(
    CollectiveKind kind, Range data, Tag tag, ReduceOp op, int root, Range receive) {
  Signature call = make_call(*this, kind, data, tag, op, root, receive).signature;
  call.sequence = next_sequence_++;
  return std::make_unique<Course>(failures_, call);
}

void HierarchicalCommunicator::close_lane(Course& course, Stream& stream) {
  inside_->vouch(lane_vouchers_, course.call(), stream);
  course.add(lane_->all_gather(lane_vouchers_.range(), stream, no_tag), Level::lane);
  course.add(inside_->require_vouched(lane_vouchers_, course.call(), stream), Level::inside);
}

Work HierarchicalCommunicator::close_world(std::unique_ptr<Course> course, const Work& last,
                                           Stream& stream) {
  course->add(last, Level::world);
  inside_->vouch(world_vouchers_, course->call(), stream);
  course->add(world_->all_gather(world_vouchers_.range(), stream, no_tag), Level::world);
  course->add(inside_->require_vouched(world_vouchers_, course->call(), stream), Level::inside);
  return finish(std::move(course), stream);
}

Work HierarchicalCommunicator::finish(std::unique_ptr<Course> course, Stream& stream) {
  course->set_event(stream.record());
  const Work work{std::shared_ptr<const Course>(std::move(course))};
  checks_->enqueue([work] {
    try {
      work.wait();
    } catch (const RankError&) {  // whoever waits for the collective is told
    }
  });
  return work;
}

Range HierarchicalCommunicator::own_slice(const Range& data) const {
  return part_of(data, slice_of(data.count, inside_->rank(), inside_->size()));
}

Work HierarchicalCommunicator::all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) {
  auto course = begin(CollectiveKind::all_reduce, data, tag, op);
  const int pieces = pieces_of(data);
  const auto piece = [&](int p) { return part_of(data, slice_of(data.count, p, pieces)); };
  const auto reduce_inside = [&](const Range& part) {
    course->add(inside_->reduce_scatter(part, op, stream, tag), Level::inside);
  };
  const auto cross = [&](const Range& part, Stream& on) {
    course->add(lane_->all_reduce(own_slice(part), op, on, tag), Level::lane);
  };
  const auto gather_inside = [&](const Range& part) {
    course->add(inside_->all_gather(part, stream, tag), Level::inside);
  };
  if (pieces == 1) {  // nothing to do meanwhile
    reduce_inside(data);
    cross(data, stream);
    close_lane(*course, stream);
    gather_inside(data);
    return finish(std::move(course), stream);
  }
  Event crossed;  // the piece before
  for (int p = 0; p <= pieces; ++p) {
    const Event before = crossed;
    if (p < pieces) {
      reduce_inside(piece(p));
      outer_.wait(stream.record());
      cross(piece(p), outer_);
      // The last gathering inside speaks for all pieces.
      if (p == pieces - 1) close_lane(*course, outer_);
      crossed = outer_.record();
    }
    if (p == 0) continue;
    stream.wait(before);
    gather_inside(piece(p - 1));
  }
  return finish(std::move(course), stream);
}

Work HierarchicalCommunicator::reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag) {
  auto course = begin(CollectiveKind::reduce, data, tag, op, root);
  const int target = hosts_.host_of(root);
  course->add(inside_->reduce_scatter(data, op, stream, tag), Level::inside);
  course->add(lane_->reduce(own_slice(data), op, target, stream, tag), Level::lane);
  close_lane(*course, stream);
  if (host() == target) course->add(inside_->all_gather(data, stream, tag), Level::inside);
  return finish(std::move(course), stream);
}

Work HierarchicalCommunicator::broadcast(Range data, int root, Stream& stream, Tag tag) {
  auto course = begin(CollectiveKind::broadcast, data, tag, ReduceOp::sum, root);
  const int source = hosts_.host_of(root);
  if (host() == source)
    course->add(inside_->broadcast(data, hosts_.place_of(root), stream, tag), Level::inside);
  course->add(lane_->broadcast(own_slice(data), source, stream, tag), Level::lane);
  close_lane(*course, stream);
  if (host() != source) course->add(inside_->all_gather(data, stream, tag), Level::inside);
  return finish(std::move(course), stream);
}

Work HierarchicalCommunicator::reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag) {
  auto course = begin(CollectiveKind::reduce_scatter, data, tag, op);
  const Work work = world_->reduce_scatter(data, op, stream, tag);
  return close_world(std::move(course), work, stream);
}

Work HierarchicalCommunicator::all_gather(Range data, Stream& stream, Tag tag) {
  auto course = begin(CollectiveKind::all_gather, data, tag);
  const Work work = world_->all_gather(data, stream, tag);
  return close_world(std::move(course), work, stream);
}

Work HierarchicalCommunicator::all_to_all(Range send, Range receive, Stream& stream, Tag tag) {
  auto course = begin(CollectiveKind::all_to_all, send, tag, ReduceOp::sum, -1, receive);
  const Work work = world_->all_to_all(send, receive, stream, tag);
  return close_world(std::move(course), work, stream);
}

Work HierarchicalCommunicator::barrier(Stream& stream) {
  auto course = begin(CollectiveKind::barrier, {.dtype = DType::uint8}, no_tag);
  const Work work = world_->barrier(stream);
  return close_world(std::move(course), work, stream);
}

std::unique_ptr<Communicator> HierarchicalCommunicator::split(int color, int key) {
  const Signature call = {.sequence = next_sequence_++, .kind = CollectiveKind::split};
  auto world = failures_->check(call, Level::world, [&] { return split_off(*world_, color, key); });
  auto inside =
      failures_->check(call, Level::inside, [&] { return split_off(*inside_, color, key); });
  if (!world) return nullptr;
  const std::string prefix = fmt::format("{}/split{}.{}", prefix_, call.sequence, color);
  HostMap hosts = exchange_hosts(store_, prefix, world->rank(), world->size(),
                                 std::to_string(host()), start_timeout_);
  if (!hosts.is_even()) return world;
  return std::unique_ptr<Communicator>(new HierarchicalCommunicator(
      std::move(inside), std::move(world), std::move(hosts), place_, store_, prefix, start_timeout_,
      failures_->cause().make_part(prefix + "/cause")));
}

std::shared_ptr<SymmetricBuffer> HierarchicalCommunicator::addressable_memory(std::size_t bytes) {
  return inside_->addressable_memory(bytes);
}

}  // namespace lockstep::comm
