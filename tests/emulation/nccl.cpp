// A test double of NCCL: the ranks of a communicator are threads of this process. What a rank calls
// becomes a task on its stream, in which it waits for the same call of all others, computes its own
// result from what they gave, and waits until all have.
#include "tests/emulation/include/nccl.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/dtype.h"
#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

struct Part {
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    send,
    receive
  };
  Kind kind;
  const std::byte* from;
  std::byte* to;
  std::size_t count;  // as NCCL counts it: for some kinds of one rank's share
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int peer = -1;  // the root, or the other end
};
// What one rank calls at a time, a group being one call.
using Parts = std::vector<Part>;

// The same call of all ranks.
struct Meeting {
  explicit Meeting(int size) : parts(static_cast<std::size_t>(size)) {}
  std::vector<const Parts*> parts;  // by rank; nullptr: nothing to be had from it
  std::uint32_t arrived = 0, done = 0;
};

template <class F>
void visit(ncclDataType_t type, F&& f) {
  switch (type) {
    case ncclUint8:
      return f(base::TypeTag<std::uint8_t>{});
    case ncclInt32:
      return f(base::TypeTag<std::int32_t>{});
    case ncclInt64:
      return f(base::TypeTag<std::int64_t>{});
    case ncclFloat16:
      return f(base::TypeTag<base::float16>{});
    case ncclFloat32:
      return f(base::TypeTag<float>{});
    case ncclFloat64:
      return f(base::TypeTag<double>{});
    case ncclBfloat16:
      return f(base::TypeTag<base::bfloat16>{});
  }
}

std::size_t size_of(ncclDataType_t type) {
  std::size_t bytes = 0;
  visit(type, [&]<class T>(base::TypeTag<T>) { bytes = sizeof(T); });
  return bytes;
}

std::vector<std::byte> garbage(std::size_t bytes) {
  return std::vector<std::byte>(bytes, std::byte{0x5A});
}

template <class T>
T reduced(T a, T b, ncclRedOp_t op) {
  if constexpr (sizeof(T) == 2) {
    return T(reduced(static_cast<float>(a), static_cast<float>(b), op));
  } else {
    if (op == ncclMax) return std::max(a, b);
    if (op == ncclMin) return std::min(a, b);
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
      return a + b;
  }
}

template <class T>
T divided(T sum, int ranks) {
  if constexpr (sizeof(T) == 2)
    return T(static_cast<float>(sum) / static_cast<float>(ranks));
  else
    return static_cast<T>(sum / static_cast<T>(ranks));
}

// One rank's side of a meeting.
class Exchange final : public KernelCall {
 public:
  Exchange(std::shared_ptr<Meeting> meeting, int rank, Parts parts,
           std::shared_ptr<const std::uint32_t> aborted)
      : meeting_(std::move(meeting)),
        rank_(rank),
        parts_(std::move(parts)),
        aborted_(std::move(aborted)) {}

  void run() const override {
    const auto place = static_cast<std::size_t>(rank_);
    const bool whole = load_acquire(aborted_.get()) == 0;
    if (whole) meeting_->parts[place] = &parts_;
    const bool met = come_to(meeting_->arrived) && whole;
    std::vector<std::vector<std::byte>> results;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      results.push_back(met ? result_of(i) : garbage(bytes_to(parts_[i])));
    // Nobody's memory is written to before all have read what they need of it; whoever leaves
    // earlier takes it along.
    come_to(meeting_->done);
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (!results[i].empty()) std::memcpy(parts_[i].to, results[i].data(), results[i].size());
  }

 private:
  int size() const { return static_cast<int>(meeting_->parts.size()); }

  // Waits until all have come, false where the communicator is aborted first. What the others did
  // before they came happened before what follows either way, for the race detector too.
  bool come_to(std::uint32_t& count) const {
    release(&count);
    fetch_add_acquire_release(&count, std::uint32_t{1});
    const bool all_came = wait_for_all(count);
    acquire(&count);
    if (!all_came) meeting_->parts[static_cast<std::size_t>(rank_)] = nullptr;
    return all_came;
  }

  bool wait_for_all(std::uint32_t& count) const {
    while (true) {
      const std::uint32_t seen = load_acquire(&count);
      if (seen >= meeting_->parts.size()) return true;
      if (load_acquire(aborted_.get()) != 0) return false;
      park(&count, &seen, sizeof(seen), aborted_.get(), ~std::uint64_t{0}, {__FILE__, __LINE__});
    }
  }

  // Bytes that a part leaves at `to`.
  std::size_t bytes_to(const Part& part) const {
    const std::size_t bytes = part.count * size_of(part.type);
    switch (part.kind) {
      case Part::Kind::reduce:
        return rank_ == part.peer ? bytes : 0;
      case Part::Kind::all_gather:
        return bytes * static_cast<std::size_t>(size());
      case Part::Kind::send:
        return 0;
      default:
        return bytes;
    }
  }

  std::vector<std::byte> result_of(std::size_t index) const {
    const Part& part = parts_[index];
    const std::size_t bytes = bytes_to(part);
    if (bytes == 0) return {};
    switch (part.kind) {
      case Part::Kind::send:
        return {};
      case Part::Kind::receive:
        return taken(message_from(part.peer, index), bytes);
      case Part::Kind::broadcast:
        return taken(matching(part.peer, index), bytes);
      case Part::Kind::all_gather: {
        std::vector<std::byte> all;
        for (int r = 0; r < size(); ++r) {
          const auto share = taken(matching(r, index), bytes / static_cast<std::size_t>(size()));
          all.insert(all.end(), share.begin(), share.end());
        }
        return all;
      }
      default:
        return reduction(index, bytes);
    }
  }

  std::vector<std::byte> reduction(std::size_t index, std::size_t bytes) const {
    const Part& part = parts_[index];
    const std::size_t skipped =
        part.kind == Part::Kind::reduce_scatter ? bytes * static_cast<std::size_t>(rank_) : 0;
    std::vector<std::byte> result;
    visit(part.type, [&]<class T>(base::TypeTag<T>) {
      for (int r = 0; r < size(); ++r) {
        const auto theirs = taken(matching(r, index), bytes, skipped);
        if (r == 0) {
          result = theirs;
          continue;
        }
        T* const sum = reinterpret_cast<T*>(result.data());
        const T* const more = reinterpret_cast<const T*>(theirs.data());
        for (std::size_t i = 0; i < part.count; ++i) sum[i] = reduced(sum[i], more[i], part.op);
      }
      T* const sum = reinterpret_cast<T*>(result.data());
      if (part.op == ncclAvg)
        for (std::size_t i = 0; i < part.count; ++i) sum[i] = divided(sum[i], size());
    });
    return result;
  }

  // The part of rank r that goes with this one's; nullptr where it gave none such.
  const Part* matching(int r, std::size_t index) const {
    const Parts* const theirs = meeting_->parts[static_cast<std::size_t>(r)];
    if (theirs == nullptr || index >= theirs->size()) return nullptr;
    const Part &mine = parts_[index], &part = (*theirs)[index];
    const bool same = part.kind == mine.kind && part.count == mine.count &&
                      part.type == mine.type && part.op == mine.op && part.peer == mine.peer;
    return same ? &part : nullptr;
  }

  const Part* message_from(int r, std::size_t index) const {
    const auto is_from = [&](const Part& part, Part::Kind kind, int peer) {
      return part.kind == kind && part.peer == peer;
    };
    const auto before =
        std::count_if(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const Part& part) { return is_from(part, Part::Kind::receive, r); });
    const Parts* const theirs = meeting_->parts[static_cast<std::size_t>(r)];
    if (theirs == nullptr) return nullptr;
    std::ptrdiff_t found = 0;
    for (const Part& part : *theirs) {
      if (!is_from(part, Part::Kind::send, rank_) || found++ != before) continue;
      return part.count == parts_[index].count && part.type == parts_[index].type ? &part : nullptr;
    }
    return nullptr;
  }

  static std::vector<std::byte> taken(const Part* part, std::size_t bytes,
                                      std::size_t skipped = 0) {
    if (part == nullptr) return garbage(bytes);
    return {part->from + skipped, part->from + skipped + bytes};
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
  Parts parts_;
  std::shared_ptr<const std::uint32_t> aborted_;
};

// The ranks that hold one id.
struct Clique {
  std::set<int> ranks;
  std::map<std::uint64_t, std::shared_ptr<Meeting>> meetings;  // by number
};

std::mutex cliques_mutex;
std::map<std::string, std::weak_ptr<Clique>> cliques;
int ids = 0;

}  // namespace
}  // namespace lockstep::emulation

using namespace lockstep::emulation;

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0, size = 0;
  std::uint64_t calls = 0;
  std::shared_ptr<std::uint32_t> aborted = std::make_shared<std::uint32_t>(0);
};

namespace {

// What the calling thread has put between a start and an end.
struct Group {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  Parts parts;
};
thread_local Group group;

ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, Parts parts) {
  std::shared_ptr<Meeting> meeting;
  {
    const std::lock_guard lock(cliques_mutex);
    auto& known = comm->clique->meetings[comm->calls++];
    if (!known) known = std::make_shared<Meeting>(comm->size);
    meeting = known;
  }
  const cudaError_t status = enqueue_task(
      stream, "a call of NCCL",
      std::make_unique<Exchange>(std::move(meeting), comm->rank, std::move(parts), comm->aborted));
  return status == cudaSuccess ? ncclSuccess : ncclInternalError;
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, const Part& part) {
  if (group.depth == 0) return enqueue(comm, stream, {part});
  if (group.comm != nullptr && (group.comm != comm || group.stream != stream))
    return ncclInvalidUsage;  // the project never does
  group.comm = comm;
  group.stream = stream;
  group.parts.push_back(part);
  return ncclSuccess;
}

const std::byte* bytes(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* bytes(void* data) {
  return static_cast<std::byte*>(data);
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = 21400;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(cliques_mutex);
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "emulated %d", ++ids);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;  // the project never blocks here
  const std::lock_guard lock(cliques_mutex);
  auto& known = cliques[id.internal];
  auto clique = known.lock();
  if (!clique) known = clique = std::make_shared<Clique>();
  if (!clique->ranks.insert(rank).second) return ncclInvalidUsage;
  *comm = new ncclComm{.clique = std::move(clique), .rank = rank, .size = size};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const std::lock_guard lock(cliques_mutex);
  *result =
      static_cast<int>(comm->clique->ranks.size()) < comm->size ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(cliques_mutex);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::atomic_ref(*comm->aborted).store(1, std::memory_order_release);
  return ncclCommDestroy(comm);
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : "some error";
}

const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group, {});
  return ended.comm == nullptr ? ncclSuccess : enqueue(ended.comm, ended.stream, ended.parts);
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Part::Kind::all_reduce, bytes(from), bytes(to), count, type, op});
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Part::Kind::reduce, bytes(from), bytes(to), count, type, op, root});
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Part::Kind::reduce_scatter, bytes(from), bytes(to), count, type, op});
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Part::Kind::all_gather, bytes(from), bytes(to), count, type});
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream,
             {Part::Kind::broadcast, bytes(from), bytes(to), count, type, ncclSum, root});
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Part::Kind::send, bytes(from), nullptr, count, type, ncclSum, peer});
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, stream, {Part::Kind::receive, nullptr, bytes(to), count, type, ncclSum, peer});
}
