#include "comm/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds between_looks{20};

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return ncclFloat32;
    case DType::float64:
      return ncclFloat64;
    case DType::bfloat16:
      return ncclBfloat16;
    case DType::float16:
      return ncclFloat16;
    case DType::int32:
      return ncclInt32;
    case DType::int64:
      return ncclInt64;
    default:
      return ncclUint8;
  }
}

ncclRedOp_t operation_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::avg:
      return ncclAvg;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
  }
  __builtin_unreachable();
}

std::size_t count_of(const Slice& slice) {
  return static_cast<std::size_t>(slice.count());
}

// What rank 0 found out for the others.
ncclUniqueId id_from(const std::string& bytes) {
  ncclUniqueId id{};
  if (bytes.size() != sizeof id) throw StartupError("backend nccl: the id in the store is damaged");
  std::memcpy(&id, bytes.data(), sizeof id);
  return id;
}

// Something to reduce for a barrier.
std::shared_ptr<void> device_byte(const NcclPlace& place) {
  void* memory = nullptr;
  device::check_cuda(cudaMalloc(&memory, 1), "cudaMalloc", {place.device.index, place.rank});
  return {memory, [](void* p) { cudaFree(p); }};
}

ncclUniqueId share_id(Store& store, const NcclPlace& place) {
  const std::string key = place.prefix + "/id";
  if (place.rank == 0) store.set(key, make_nccl_id());
  try {
    return id_from(store.get(key, place.start_timeout));
  } catch (const StartupError&) {
    throw StartupError("backend nccl: rank 0 did not come to give its id");
  }
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<const NcclLibrary> library, Store& store,
                                   const NcclPlace& place, const CommunicatorOptions& options,
                                   std::shared_ptr<FirstCause> cause)
    : place_(place),
      options_(options),
      store_(store),
      cause_(std::move(cause)),
      library_(std::move(library)),
      comm_(library_, place.rank, place.size, share_id(store, place),
            device::Clock::now() + place.start_timeout),
      barrier_word_(device_byte(place)),
      watch_([this] { watch(); }) {
  cause_->on_offer([this](const RankError& error) { fail(error); });
}

NcclCommunicator::~NcclCommunicator() {
  cause_->on_offer(nullptr);
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  watch_.join();
}

const Capabilities& NcclCommunicator::capabilities() const {
  static const Capabilities capabilities = [] {
    Capabilities all = all_capabilities(DeviceKind::cuda);
    all.cost = pcie_cost;  // or a network's, which is much the same
    return all;
  }();
  return capabilities;
}

// An event that is the start and the end of nothing.
Work NcclCommunicator::mark(Stream& stream) {
  auto work = std::make_shared<NcclWork>(failure_);
  const device::CudaStream& cuda = device::cuda_stream(stream);
  if (failure_->get() || !origin_) return Work(work);
  cuda.activate();
  work->begin(origin_, cuda.place(), cuda.native());
  work->end(cuda.place(), cuda.native(), stream.record());
  return Work(work);
}

void NcclCommunicator::abort(int rank, const std::string& cause) {
  cause_->offer(rank, cause);
}

// For what this rank has found out; somebody else may have known better before.
void NcclCommunicator::stop(const RankError& error) {
  const RankError cause = cause_->find(milliseconds(0)).value_or(error);
  cause_->offer(cause.rank(), cause.what());
  fail(cause);
}

void NcclCommunicator::fail(const RankError& error) {
  failure_->set(error);
  const std::lock_guard lock(abort_mutex_);
  if (before_abort_) before_abort_(error);
  comm_.abort();
}

void NcclCommunicator::before_abort(std::function<void(const RankError&)> called) {
  const std::lock_guard lock(abort_mutex_);
  before_abort_ = std::move(called);
  if (const auto error = failure_->get(); error && before_abort_) before_abort_(*error);
}

Collective NcclCommunicator::next_call(CollectiveKind kind, Range data, Tag tag, ReduceOp op,
                                       int root, Range receive) {
  Collective call = make_call(*this, kind, data, tag, op, root, receive);
  call.signature.sequence = next_sequence_++;
  call.timeout = options_.timeout;
  call.deadline = device::Clock::now() + options_.timeout;
  return call;
}

template <class Enqueue>
Work NcclCommunicator::submit(Collective call, Stream& stream, const char* name,
                              Enqueue&& enqueue) {
  auto work = std::make_shared<NcclWork>(failure_);
  device::CudaStream& cuda = device::cuda_stream(stream);
  if (failure_->get()) return Work(work);
  try {
    if (options_.check != AgreementCheck::off &&
        checked_.insert(hash_of_call(call.signature)).second)
      agree(call);
    cuda.activate();
    if (!origin_) origin_ = std::make_shared<TimeOrigin>(cuda.place(), cuda.native());
    work->begin(origin_, cuda.place(), cuda.native());
    comm_.call(name, call.deadline,
               [&](ncclComm_t comm) { return enqueue(comm_.library(), comm, cuda.native()); });
    work->end(cuda.place(), cuda.native(), cuda.record());
  } catch (const RankError& error) {
    stop(error);
    return Work(work);
  } catch (const Error& error) {
    stop(RankError(-1, fmt::format("{} failed: {}", to_string(call.signature), error.what())));
    return Work(work);
  }
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back({work, call});
  }
  changed_.notify_all();
  return Work(work);
}

// What each rank says, through the store; returns what rank `from` says. Waits for it no longer
// than the call may take.
std::string NcclCommunicator::exchange(const std::string& what, int from, const Collective& call) {
  const std::string key = fmt::format("{}/{}/{}", place_.prefix, what, from);
  while (!store_.has({key}).front()) {
    if (const auto cause = cause_->find(milliseconds(0))) throw *cause;
    if (device::Clock::now() >= call.deadline) throw late(call, from, "arrive at");
    std::this_thread::sleep_for(milliseconds(1));
  }
  return store_.get(key, milliseconds(1000));
}

void NcclCommunicator::agree(const Collective& call) {
  const std::string what = fmt::format("check{}", checked_.size());
  std::string own(sizeof(Signature), '\0');
  std::memcpy(own.data(), &call.signature, sizeof(Signature));
  store_.set(fmt::format("{}/{}/{}", place_.prefix, what, rank()), own);
  std::vector<Signature> all(static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    const std::string theirs = exchange(what, r, call);
    if (theirs.size() != sizeof(Signature))
      throw RankError(r, fmt::format("rank {} has another version of this program", r));
    std::memcpy(&all[static_cast<std::size_t>(r)], theirs.data(), sizeof(Signature));
  }
  check_agreement(all);
}

Work NcclCommunicator::all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) {
  return submit(next_call(CollectiveKind::all_reduce, data, tag, op), stream, "ncclAllReduce",
                [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t queue) {
                  return nccl.all_reduce(data.data, data.data, static_cast<std::size_t>(data.count),
                                         type_of(data.dtype), operation_of(op), comm, queue);
                });
}

Work NcclCommunicator::reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag) {
  return submit(next_call(CollectiveKind::reduce, data, tag, op, root), stream, "ncclReduce",
                [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t queue) {
                  return nccl.reduce(data.data, data.data, static_cast<std::size_t>(data.count),
                                     type_of(data.dtype), operation_of(op), root, comm, queue);
                });
}

// NCCL's own forms need equal slices; otherwise one call for each slice, in one group.
Work NcclCommunicator::reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag) {
  return submit(next_call(CollectiveKind::reduce_scatter, data, tag, op), stream,
                "ncclReduceScatter",
                [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t queue) {
                  if (data.count % size() == 0) {
                    const Slice own = slice_of(data.count, rank(), size());
                    return nccl.reduce_scatter(data.data, data.at(own.begin), count_of(own),
                                               type_of(data.dtype), operation_of(op), comm, queue);
                  }
                  nccl.group_start();
                  for (int r = 0; r < size(); ++r) {
                    const Slice slice = slice_of(data.count, r, size());
                    nccl.reduce(data.at(slice.begin), data.at(slice.begin), count_of(slice),
                                type_of(data.dtype), operation_of(op), r, comm, queue);
                  }
                  return nccl.group_end();
                });
}

Work NcclCommunicator::all_gather(Range data, Stream& stream, Tag tag) {
  return submit(next_call(CollectiveKind::all_gather, data, tag), stream, "ncclAllGather",
                [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t queue) {
                  if (data.count % size() == 0) {
                    const Slice own = slice_of(data.count, rank(), size());
                    return nccl.all_gather(data.at(own.begin), data.data, count_of(own),
                                           type_of(data.dtype), comm, queue);
                  }
                  nccl.group_start();
                  for (int r = 0; r < size(); ++r) {
                    const Slice slice = slice_of(data.count, r, size());
                    nccl.broadcast(data.at(slice.begin), data.at(slice.begin), count_of(slice),
                                   type_of(data.dtype), r, comm, queue);
                  }
                  return nccl.group_end();
                });
}

Work NcclCommunicator::broadcast(Range data, int root, Stream& stream, Tag tag) {
  return submit(next_call(CollectiveKind::broadcast, data, tag, ReduceOp::sum, root), stream,
                "ncclBroadcast", [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t queue) {
                  return nccl.broadcast(data.data, data.data, static_cast<std::size_t>(data.count),
                                        type_of(data.dtype), root, comm, queue);
                });
}

Work NcclCommunicator::all_to_all(Range send, Range receive, Stream& stream, Tag tag) {
  return submit(
      next_call(CollectiveKind::all_to_all, send, tag, ReduceOp::sum, -1, receive), stream,
      "ncclSend", [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t queue) {
        nccl.group_start();
        for (int r = 0; r < size(); ++r) {
          const Slice slice = slice_of(send.count, r, size());
          nccl.send(send.at(slice.begin), count_of(slice), type_of(send.dtype), r, comm, queue);
          nccl.recv(receive.at(slice.begin), count_of(slice), type_of(send.dtype), r, comm, queue);
        }
        return nccl.group_end();
      });
}

Work NcclCommunicator::barrier(Stream& stream) {
  return submit(next_call(CollectiveKind::barrier, {.dtype = DType::uint8}, no_tag), stream,
                "ncclAllReduce", [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t queue) {
                  return nccl.all_reduce(barrier_word_.get(), barrier_word_.get(), 1, ncclUint8,
                                         ncclMax, comm, queue);
                });
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  const Collective call = next_call(CollectiveKind::split, {.dtype = DType::uint8}, no_tag);
  if (const auto error = failure_->get()) throw *error;
  const std::string what = fmt::format("split{}", call.signature.sequence);
  store_.set(fmt::format("{}/{}/{}", place_.prefix, what, rank()),
             fmt::format("{} {}", color, key));
  std::vector<std::pair<int, int>> members;  // key and rank
  for (int r = 0; r < size(); ++r) {
    std::istringstream wish(exchange(what, r, call));
    int their_color = 0, their_key = 0;
    wish >> their_color >> their_key;
    if (their_color == color) members.emplace_back(their_key, r);
  }
  if (color < 0) return nullptr;
  std::sort(members.begin(), members.end());
  NcclPlace part = place_;
  part.prefix = fmt::format("{}/{}.{}", place_.prefix, what, color);
  part.size = static_cast<int>(members.size());
  part.rank = static_cast<int>(std::find(members.begin(), members.end(), std::pair(key, rank())) -
                               members.begin());
  return std::make_unique<NcclCommunicator>(library_, store_, part, options_,
                                            cause_->make_part(part.prefix + "/cause"));
}

void NcclCommunicator::watch() {
  std::unique_lock lock(mutex_);
  while (!leaving_) {
    if (pending_.empty())
      changed_.wait(lock);
    else
      changed_.wait_for(lock, between_looks);
    look_at_pending(lock);
  }
}

void NcclCommunicator::look_at_pending(std::unique_lock<std::mutex>& lock) try {
  const auto now = device::Clock::now();
  while (!pending_.empty() && pending_.front().work->event().done()) pending_.pop_front();
  if (pending_.empty() || failure_->get()) return;
  const Collective call = pending_.front().call;
  lock.unlock();
  if (const auto cause = cause_->find(milliseconds(0)))
    stop(*cause);
  else if (const auto failure = comm_.failure())
    stop(RankError(-1, fmt::format("{} failed: {}", to_string(call.signature), *failure)));
  else if (now >= call.deadline)
    stop(late(call, -1, "finish"));
  lock.lock();
} catch (const std::exception& error) {  // a GPU that is gone
  if (!lock.owns_lock()) lock.lock();
  fail(RankError(rank(), fmt::format("rank {}: {}", rank(), error.what())));
}

}  // namespace lockstep::comm
