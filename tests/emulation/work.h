// What streams hold: kernels, copies and tasks, and the order between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulation/kernel_interface.h"

namespace lockstep::emulation {

// An address that stands for "this has happened", for the race detector: who did it released it,
// who comes after acquires it.
struct Order {
  char address = 0;
};
using Orders = std::vector<std::shared_ptr<const Order>>;

// A kernel launch, or a copy or task as a kernel of one thread.
struct Work {
  enum class Kind : std::uint8_t { kernel, copy, task };

  Kind kind = Kind::kernel;
  std::shared_ptr<const KernelCall> call;
  std::string name;  // for reports
  int device = 0;
  Extent3 grid_extent{1, 1, 1};
  Extent3 block_extent{1, 1, 1};
  std::size_t dynamic_shared_bytes = 0;
  std::size_t shared_limit = 48 * 1024;

  std::uint64_t blocks() const {
    return std::uint64_t{grid_extent.x} * grid_extent.y * grid_extent.z;
  }
  unsigned threads() const { return block_extent.x * block_extent.y * block_extent.z; }
};

// One cudaEventRecord.
struct EventRecord {
  bool done = false;
  std::uint64_t time = 0;  // when it was
  Orders orders;           // of what it follows
};

// A captured graph: each node's work and the nodes that it follows, all before it.
struct Graph {
  struct Node {
    std::shared_ptr<const Work> work;
    std::vector<std::size_t> follows;
    int priority = 0;  // of the stream it was captured from
  };
  std::vector<Node> nodes;
};

struct Operation {
  // One of the four.
  std::shared_ptr<const Work> work = nullptr;
  std::shared_ptr<EventRecord> record = nullptr;
  std::shared_ptr<const EventRecord> wait = nullptr;
  std::shared_ptr<const Graph> graph = nullptr;
  bool own_priorities = false;  // the graph's nodes keep theirs

  Orders follows = {};                                       // of work and graph
  std::shared_ptr<Order> order = std::make_shared<Order>();  // what they release
  bool started = false;
};

// The fibers that ThreadSanitizer knows, kept by a stream or, while a graph runs, by its nodes: the
// threads of operations that follow each other may use the same ones, which hides no race between
// them.
class RaceContexts {
 public:
  RaceContexts() = default;
  ~RaceContexts();
  RaceContexts(const RaceContexts&) = delete;
  RaceContexts& operator=(const RaceContexts&) = delete;

  // nullptr when there is none to reuse and the process has as many as it may; then the caller
  // takes one that its own operation has finished with. Called by the thread that runs the devices
  // only.
  void* take();
  void give_back(const std::vector<void*>& contexts) {
    free_.insert(free_.end(), contexts.begin(), contexts.end());
  }
  // All that `other` has.
  void take_all(RaceContexts& other) { give_back(std::exchange(other.free_, {})); }
  static void* make();
  static void destroy(void* context);
  // Of a thread that was dropped in the middle, which is always inside the emulation.
  static void destroy_dropped(void* context);

 private:
  std::vector<void*> free_;
};

// Capture of the operations of several streams into one graph.
struct Capture {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  struct Stream* origin = nullptr;
  std::vector<struct Stream*> streams;
  std::thread::id thread;  // that began it
  bool relaxed = false;    // that thread may wait and allocate
  bool invalid = false;
  bool ended = false;
};

struct Stream {
  int device = 0;
  int priority = 0;  // lower goes first
  int number = 0;    // for reports
  std::deque<Operation> operations;
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
  Orders frontier;  // of what the next operation follows
  RaceContexts race_contexts;

  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> captured;  // nodes that the next captured one follows
};

struct Event {
  int device = 0;
  bool timing = true;
  std::shared_ptr<EventRecord> record;  // the latest; nullptr before the first
  std::shared_ptr<Capture> capture;     // where the latest was captured instead
  std::vector<std::size_t> captured;
};

}  // namespace lockstep::emulation
