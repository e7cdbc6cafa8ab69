// Communicator: the collectives of a group of ranks, the one interface that every backend
// implements.
//
// Rules for all backends:
// - A collective is enqueued on a stream and returns a Work at once. On an inline stream it has
// run, on
//   the calling thread, when the call returns. All ranks call the same collectives in the same
//   order; all collectives of one communicator are enqueued on one stream at a time.
// - The memory belongs to the caller and must stay valid and untouched until the Work is done.
// - Ranks that disagree about a collective (kind, count, dtype, op, root, tag) all get a RankError
// naming
//   both sides; never a wrong result, never a hang. Every wait has a deadline (Options::timeout)
//   and looks at the group's abort flag. After an error the communicator is broken: each further
//   call fails with the same error.
// - Every rank receives the same bits from all_reduce, all_gather and broadcast.
// - A world of one and a count of zero are valid and copy at most.
//
// Used from one thread at a time, except abort(), which any thread may call.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/cost_model.h"
#include "comm/memory/symmetric_buffer.h"
#include "framework/base/dtype.h"
#include "framework/base/error.h"
#include "framework/device/device.h"
#include "framework/device/stream.h"

namespace lockstep::comm::schedule {
class Recorder;
}

namespace lockstep::comm {

// 16-bit floats are reduced in float and rounded once. Integer sums wrap around. max and min of
// numbers and a NaN are NaN.
enum class ReduceOp : std::uint8_t { sum, avg, max, min };
std::string_view name_of(ReduceOp op);

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  barrier,
  split
};
std::string_view name_of(CollectiveKind kind);

// Typed memory: `count` elements of `dtype` at `data`.
struct Range {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::float32;
  std::size_t bytes() const { return static_cast<std::size_t>(count) * base::size_of(dtype); }
  std::byte* at(std::int64_t element) const {
    return static_cast<std::byte*>(data) + static_cast<std::size_t>(element) * base::size_of(dtype);
  }
};

template <class T, std::size_t Extent>
Range range_of(std::span<T, Extent> elements) {
  return {elements.data(), static_cast<std::int64_t>(elements.size()), base::dtype_of<T>()};
}

// What a collective is about, for the agreement check, error messages and timelines: "bucket 3".
using Tag = std::uint32_t;
inline constexpr Tag no_tag = 0xffffffffu;

// A collective that was enqueued. A cheap handle; copies refer to the same collective. Thread-safe.
class Work {
 public:
  // When it ran; filled in when done. For timelines and the exposed-communication share.
  struct Times {
    device::Clock::time_point start, end;
  };
  // What a handle refers to; one implementation for each kind of backend.
  class State {
   public:
    virtual ~State() = default;
    virtual Event event() const = 0;           // done when the collective is
    virtual void throw_if_failed() const = 0;  // valid once done
    virtual Times times() const = 0;           // valid once done
    // Of a collective that was captured: see Work::launched().
    virtual std::shared_ptr<const State> launched() const { return nullptr; }
  };

  Work() = default;  // done, without error
  explicit Work(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  explicit Work(Times times) : times_(times) {}  // done, without error: what ran inside the call

  bool done() const;
  // The host waits until it is done; throws what the collective failed with. The collective's own
  // timeout ends it, so this needs none.
  void wait() const;
  // Work enqueued on `stream` later waits for it. On an inline stream this is wait(); on others an
  // error surfaces at the next wait() on the host.
  void wait_on(Stream& stream) const;
  Event event() const;  // done when it is
  Times times() const;
  // Of a collective that was captured into a graph, which by itself never runs: that of the graph's
  // latest launch. Any other is itself.
  Work launched() const;

 private:
  std::shared_ptr<const State> state_;
  Times times_;  // where there is no state
};

struct Capabilities {
  std::vector<DType> dtypes;
  std::vector<ReduceOp> ops;  // the average of integers is not defined: nobody offers it
  std::vector<CollectiveKind> collectives;
  std::vector<DeviceKind> devices;
  // Gradients should live in memory from `addressable_memory()`, where peers read them in place.
  bool wants_addressable_memory = false;
  // 16-bit floats travel as float, twice as many bytes as they have.
  bool widens_16_bit = false;
  // Whether a rank that is lost in the middle of a collective leaves the others able to say so. If
  // not, they stay in it until they are ended from outside.
  bool survives_loss = true;
  // Collectives on a stream that is captured (Context::capture) become part of the graph. A rank
  // that launches the graph and one that makes the same calls are the same to each other.
  bool can_be_captured = false;
  // Of an all-reduce, for plans.
  CostModel cost = {};

  bool reduces(DType dtype, ReduceOp op) const;
};

enum class AgreementCheck : std::uint8_t { every, plan, off };  // comm.check

struct CommunicatorOptions {
  std::chrono::milliseconds timeout{60'000};  // comm.timeout: of one collective
  std::string algorithm = "auto";             // comm.algorithm
  std::string tuning = {};  // comm.tuning: what "auto" means to the ring backend; empty: built in
  AgreementCheck check = AgreementCheck::every;  // comm.check
  schedule::Recorder* recorder = nullptr;        // of the steps of the ring backend's algorithms
  // Called on another thread when a collective has passed its timeout and the backend cannot end
  // it (see Capabilities::survives_loss): somebody outside has to end this rank.
  std::function<void(const RankError&)> on_stuck = nullptr;
};

// Everything that the interface has, on one kind of device.
Capabilities all_capabilities(DeviceKind device);

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view backend() const = 0;  // "ring", "gloo", ...
  virtual const Capabilities& capabilities() const = 0;
  // What an all_reduce of so many bytes is done by; empty where the library chooses by itself.
  virtual std::string_view algorithm_for(std::size_t /*bytes*/) const { return {}; }

  // In place: `data` is reduced over all ranks.
  virtual Work all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag = no_tag) = 0;
  // In place at `root`; what the other ranks' memory holds afterwards is unspecified.
  virtual Work reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag = no_tag) = 0;
  // `data` has size() slices as slice_of() cuts it; rank r's slice holds the result afterwards, the
  // others are unspecified.
  virtual Work reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag = no_tag) = 0;
  // In place: each rank gives its own slice of `data`, all get the whole.
  virtual Work all_gather(Range data, Stream& stream, Tag tag = no_tag) = 0;
  virtual Work broadcast(Range data, int root, Stream& stream, Tag tag = no_tag) = 0;
  // `send` and `receive` have size() equal slices (counts divisible by size()); slice j of rank i's
  // `send` lands in slice i of rank j's `receive`. They must not overlap.
  virtual Work all_to_all(Range send, Range receive, Stream& stream, Tag tag = no_tag) = 0;
  virtual Work barrier(Stream& stream) = 0;

  // A communicator of those ranks that give the same `color`, ordered by (key, rank). Blocking;
  // called by all. `color` < 0 takes no part and gets nullptr.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // Memory that every rank of the group on this host can address; collective, the same size on all
  // ranks. nullptr where the backend has none.
  virtual std::shared_ptr<SymmetricBuffer> addressable_memory(std::size_t bytes) = 0;

  // From the next collective on: `words`, int32 in memory of the device, become 1 when one of this
  // rank has not gone well, before the work behind it begins; so kernels can leave alone what was
  // to be computed from its result. {}: none any more. Only collectives that are kernels do it;
  // others have ended on the host.
  virtual void raise_on_failure(Range /*words*/) {}

  // When `stream`, of this rank's device, came to this point, on the clock of the collectives'
  // times; one stream at a time. No collective: other ranks know nothing of it. It may be captured
  // where collectives may. Without a time where the backend has none to give.
  virtual Work mark(Stream& /*stream*/) { return {}; }

  // Ends every wait of every rank that can be reached, now and later, with RankError(rank, cause).
  // The first cause wins.
  virtual void abort(int rank, const std::string& cause) = 0;
};

// The slice of `count` elements that belongs to `rank` of `size`: contiguous, differing by at most
// one element in length: [count * rank / size, count * (rank + 1) / size).
struct Slice {
  std::int64_t begin = 0, end = 0;
  constexpr std::int64_t count() const { return end - begin; }
};
constexpr Slice slice_of(std::int64_t count, int rank, int size) {
  // count * rank could pass 2^63; the quotient and remainder give the same borders without.
  const std::int64_t whole = count / size, rest = count % size;
  return {whole * rank + rest * rank / size, whole * (rank + 1) + rest * (rank + 1) / size};
}

}  // namespace lockstep::comm
