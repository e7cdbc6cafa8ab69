// Who goes next. Host threads and the thread that runs the emulated devices take turns: one holds
// the token and runs, the others sleep. Whenever the holder comes to a point where another could go
// first it draws from the machine's random numbers, so one seed is one interleaving of everything.
//
// A host thread takes part from its first call of the runtime API, or from its start if the thread
// that started it takes part. It holds the token while it runs code of its own. Where it waits, in
// the API or in one of the calls that host_hooks.cpp intercepts, it hands the token on. A thread
// that waits in any other way (a system call nobody intercepts) would keep the token for good: a
// watchdog notices and takes it as gone outside until it comes back; the interleaving is then no
// longer that of the seed alone.
//
// Time is virtual: every look at the clock costs a little of it, and when everyone waits it jumps
// to the first deadline. So a run's deadlines do not depend on how fast this machine is. When
// everyone waits and nobody has a deadline, that is a deadlock, and it is reported with what each
// one waits for.
//
// What the scheduler holds is touched by the holder of the token alone, except where said.
// ThreadSani- tizer must not see the token: it would order everything before everything.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulation/random.h"

namespace lockstep::emulation {

inline constexpr std::uint64_t never = ~std::uint64_t{0};

// What a host thread waits for. Looked at by other threads while it waits.
class Condition {
 public:
  virtual ~Condition() = default;
  virtual bool holds() const = 0;
  virtual std::string describe() const = 0;
  // Whether a fault of the machine ends the wait: true for waits in the runtime API.
  virtual bool ends_with_machine() const { return true; }
};

// The devices, as the scheduler sees them.
class DeviceSide {
 public:
  virtual ~DeviceSide() = default;
  virtual bool can_progress() = 0;
  virtual void run(std::size_t steps) = 0;  // up to so many, while it can
  virtual void before_host_code() = 0;      // a host thread is about to run code of its own
  virtual std::uint64_t next_deadline() const = 0;
  virtual std::string describe_waits() const = 0;
  virtual bool failed() const = 0;
  virtual void report_deadlock(const std::string& text) = 0;
};

// When the work of streams runs.
enum class StreamPolicy : std::uint8_t {
  eager,     // as soon as it is enqueued, before the host goes on
  deferred,  // only when no host thread can go on
  random
};

class Scheduler {
 public:
  Scheduler(Random& random, StreamPolicy policy, DeviceSide& devices);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // --- Called by host threads ------------------------------------------------------------------
  // Brackets every call that looks at or changes the machine; afterwards the thread holds the token
  // and keeps it. Calls may nest.
  void enter();
  void leave();
  // Another may go first.
  void step();
  // Until the condition holds, true, or the deadline has passed, false.
  bool wait(const Condition& condition, std::uint64_t deadline);
  // Nothing to do until somebody else has done something.
  void give_way();
  // Around a wait that the scheduler cannot see the end of.
  void go_outside();
  void come_back();
  // A thread that the caller is about to start; it begins with `begin_thread`, ends with
  // end_thread.
  struct Participant;
  Participant* add_thread();
  void begin_thread(Participant* thread);
  void end_thread();
  // Whether the calling thread takes part and runs code of its own, not the emulation's.
  static bool runs_own_code();
  static bool on_device_thread();
  // Of the calling thread, in order of appearance, 1 being that of the machine.
  static int thread_number();
  static bool has_ended(const Participant* thread);

  // Virtual nanoseconds; a look costs some.
  std::uint64_t now() { return now_ = now_ + look_cost; }
  // Of the last look; for threads that do not take part.
  std::uint64_t last_time() const { return now_; }
  // What kept everyone waiting when time last jumped by 10 ms or more.
  const std::string& last_stall() const { return last_stall_; }

 private:
  static constexpr std::uint64_t look_cost = 20;

  void run_devices();
  void watch();
  void hand_over(Participant& to);
  void pass_on(Participant& from);
  void give_away();
  void adopt(Participant& me);
  void come_in(Participant& me);
  void wait_for_turn(Participant& me);
  // Picks who goes next; nullptr when there is nobody left.
  Participant* choose();
  Participant* pick(bool devices_ready);
  void stall();
  void die_of_deadlock(const std::string& text);
  std::string describe_waits() const;
  void admit_arrivals();
  bool is_ready(const Participant& host) const;

  Random& random_;
  StreamPolicy policy_;
  DeviceSide& devices_;
  std::atomic<std::uint64_t> now_{0};  // written by the holder of the token
  std::string last_stall_;

  std::vector<std::unique_ptr<Participant>> hosts_;
  std::vector<Participant*> ready_;  // scratch
  std::unique_ptr<Participant> device_thread_;
  Participant* last_host_ = nullptr;
  int made_ = 0;

  // Touched by threads without the token, under the lock.
  std::atomic<std::uint32_t> lock_{0};
  std::vector<Participant*> arrivals_;
  bool token_is_free_ = true;
  Participant* holder_ = nullptr;
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<std::uint32_t> stop_{0};
  pthread_t device_pthread_{};
  pthread_t watchdog_pthread_{};
};

}  // namespace lockstep::emulation
