// The streams of the emulated devices: which operation starts when, and what its end makes
// possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulation/block_scheduler.h"
#include "tests/emulation/fiber.h"
#include "tests/emulation/memory_map.h"
#include "tests/emulation/random.h"
#include "tests/emulation/report.h"
#include "tests/emulation/scheduler.h"
#include "tests/emulation/work.h"

namespace lockstep::emulation {

class Devices final : public DeviceSide, public BlockServices {
 public:
  Devices(int count, const DeviceLimits& limits, BlockPolicy policy, Random& random,
          MemoryMap& memory);
  ~Devices() override;
  void set_clock(Scheduler& scheduler) { clock_ = &scheduler; }

  // --- Called by host threads that hold the token
  // -------------------------------------------------
  Stream& add_stream(int device, int priority);
  void remove_stream(Stream& stream);  // must be idle
  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }
  // After what the stream holds already, and after what the calling thread did so far.
  void enqueue(Stream& stream, Operation operation);
  const Report& first_report() const { return report_; }
  void hold_device(int device, std::uint64_t steps) { blocks_.hold(device, steps); }
  void release_device() { blocks_.release(); }

  // --- For the scheduler
  // ----------------------------------------------------------------------------
  bool can_progress() override;
  void run(std::size_t steps) override;
  void before_host_code() override { memory_.close(); }
  std::uint64_t next_deadline() const override { return blocks_.next_deadline(); }
  std::string describe_waits() const override;
  bool failed() const override { return report_.fault != Fault::none; }
  void report_deadlock(const std::string& text) override;

  // --- For blocks
  // -------------------------------------------------------------------------------------
  Random& random() override { return random_; }
  FiberPool& fibers(const Work& work) override;
  void before_block(const Work& work) override;
  void before_look() override { memory_.open_all(); }
  std::uint64_t now() override { return clock_->now(); }
  void report(Fault fault, const std::string& text) override;

 private:
  // A graph that was launched and is not done.
  struct GraphRun {
    std::shared_ptr<const Graph> graph;
    bool own_priorities = false;
    std::vector<std::shared_ptr<Order>> orders;  // by node
    std::vector<std::size_t> missing;            // by node: how many that it follows are not done
    std::size_t left = 0;
    std::deque<RaceContexts> race_contexts;  // by node; who follows others has theirs
  };
  // What a stream has running: one operation, which is several executions where it is a graph.
  struct Running {
    std::unique_ptr<Execution> execution;
    Stream* stream = nullptr;
    std::shared_ptr<GraphRun> graph;
    std::size_t node = 0;
  };

  void start_operations();
  bool start_next(Stream& stream);
  void start(Stream& stream, RaceContexts& race_contexts, std::shared_ptr<const Work> work,
             Orders follows, std::shared_ptr<const Order> order, std::shared_ptr<GraphRun> graph,
             std::size_t node);
  void start_graph(Stream& stream, Operation& operation);
  void start_node(Stream& stream, const std::shared_ptr<GraphRun>& run, std::size_t node,
                  Orders follows);
  void complete(Execution& execution);
  void complete_node(Stream& stream, const std::shared_ptr<GraphRun>& run, std::size_t node);
  void pop_operation(Stream& stream);
  void check_memory(const Work& work);
  void drop_everything();

  Random& random_;
  MemoryMap& memory_;
  Scheduler* clock_ = nullptr;
  Report report_;
  bool dropped_ = false;
  FiberPool kernel_fibers_;
  FiberPool task_fibers_;
  BlockScheduler blocks_;
  std::vector<std::unique_ptr<Stream>> streams_;
  int streams_made_ = 0;
  bool streams_changed_ = false;
  std::vector<Running> running_;
};

}  // namespace lockstep::emulation
