#include "tests/emulation/scheduler.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

enum State : std::uint32_t {
  asleep,   // waits for its turn
  running,  // holds the token, in code of its own
  inside,   // holds the token, in the emulation
  outside,  // waits somewhere the scheduler cannot see
};

void sleep_really(long nanoseconds) {
  const timespec time{0, nanoseconds};
  syscall(SYS_nanosleep, &time, nullptr);
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                const timespec* longest = nullptr) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, longest,
          nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

// Not std::mutex: its calls are intercepted, by the hooks and by ThreadSanitizer.
class Locked {
 public:
  explicit Locked(std::atomic<std::uint32_t>& word) : word_(word) {
    while (word_.exchange(1, std::memory_order_acquire) != 0) sched_yield();
  }
  ~Locked() { word_.store(0, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  std::atomic<std::uint32_t>& word_;
};

// 'S' of a thread that sleeps, 'R' of one that runs; from /proc.
char kernel_state(pid_t thread) {
  std::FILE* const file = std::fopen(fmt::format("/proc/self/task/{}/stat", thread).c_str(), "r");
  if (file == nullptr) return '?';
  char state = '?';
  if (std::fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = '?';
  std::fclose(file);
  return state;
}

}  // namespace

struct Scheduler::Participant {
  std::atomic<std::uint32_t> state{asleep};
  std::atomic<std::uint32_t> turn{0};
  const Condition* condition = nullptr;  // of a host that waits
  std::uint64_t deadline = never;
  bool ended = false;
  int depth = 0;   // of nested enter()
  int number = 0;  // in order of appearance
  std::atomic<pid_t> thread{0};
};

namespace {

thread_local Scheduler::Participant* this_thread = nullptr;
thread_local Scheduler* this_threads_scheduler = nullptr;
thread_local bool this_thread_runs_devices = false;

// A thread that joined by itself leaves when it ends.
struct LeaveAtExit {
  bool armed = false;
  ~LeaveAtExit() {
    if (armed && this_thread != nullptr) this_threads_scheduler->end_thread();
  }
};
thread_local LeaveAtExit leave_at_exit;

}  // namespace

Scheduler::Scheduler(Random& random, StreamPolicy policy, DeviceSide& devices)
    : random_(random),
      policy_(policy),
      devices_(devices),
      device_thread_(std::make_unique<Participant>()) {
  // Threads that are no part of the program take no signals that are sent to it, as the driver's do
  // not. (Those of faults must come through: kernels run here, and the guard watches them.)
  sigset_t sent, before;
  sigemptyset(&sent);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&sent, signal);
  pthread_sigmask(SIG_BLOCK, &sent, &before);
  pthread_create(
      &device_pthread_, nullptr,
      [](void* scheduler) -> void* {
        static_cast<Scheduler*>(scheduler)->run_devices();
        return nullptr;
      },
      this);
  pthread_create(
      &watchdog_pthread_, nullptr,
      [](void* scheduler) -> void* {
        static_cast<Scheduler*>(scheduler)->watch();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Scheduler::~Scheduler() {
  stop_ = 1;
  futex_wake(stop_);
  device_thread_->turn = 1;
  futex_wake(device_thread_->turn);
  pthread_join(device_pthread_, nullptr);
  pthread_join(watchdog_pthread_, nullptr);
  if (this_threads_scheduler == this) {
    this_thread = nullptr;
    this_threads_scheduler = nullptr;
  }
}

bool Scheduler::runs_own_code() {
  return this_thread != nullptr && this_thread->depth == 0;
}

int Scheduler::thread_number() {
  return this_thread != nullptr ? this_thread->number : 0;
}

bool Scheduler::on_device_thread() {
  return this_thread_runs_devices;
}

bool Scheduler::has_ended(const Participant* thread) {
  return thread->ended;
}

// --- Turns
// ------------------------------------------------------------------------------------------

void Scheduler::wait_for_turn(Participant& me) {
  while (me.turn.exchange(0, std::memory_order_acquire) == 0) futex_wait(me.turn, 0);
  me.state.store(inside, std::memory_order_relaxed);
}

void Scheduler::hand_over(Participant& to) {
  {
    const Locked lock(lock_);
    holder_ = &to;
  }
  turns_.fetch_add(1, std::memory_order_relaxed);
  to.turn.store(1, std::memory_order_release);
  futex_wake(to.turn);
}

// Chooses who goes next and returns when it is `from`'s turn again.
void Scheduler::pass_on(Participant& from) {
  Participant* const next = choose();
  if (next == &from) return;
  from.state.store(asleep, std::memory_order_relaxed);
  hand_over(*next);
  wait_for_turn(from);
}

void Scheduler::enter() {
  if (this_thread == nullptr) {
    Participant* const me = new Participant;  // hosts_ owns it once it is admitted
    adopt(*me);
    come_in(*me);
    leave_at_exit.armed = true;
  }
  Participant& me = *this_thread;
  if (me.depth++ != 0) return;
  std::uint32_t expected = running;
  if (me.state.compare_exchange_strong(expected, inside)) return;
  // Taken as gone outside; the token has gone on to others.
  if (expected == outside) come_in(me);
}

void Scheduler::leave() {
  Participant& me = *this_thread;
  turns_.fetch_add(1, std::memory_order_relaxed);
  if (--me.depth != 0) return;
  devices_.before_host_code();
  me.state.store(running, std::memory_order_release);
}

void Scheduler::adopt(Participant& me) {
  this_thread = &me;
  this_threads_scheduler = this;
  me.thread = static_cast<pid_t>(syscall(SYS_gettid));
}

// Without the token: asks for it, or takes it where nobody has it.
void Scheduler::come_in(Participant& me) {
  bool free = false;
  {
    const Locked lock(lock_);
    arrivals_.push_back(&me);
    free = std::exchange(token_is_free_, false);
    if (free) holder_ = &me;
  }
  if (free) {
    admit_arrivals();
    me.state.store(inside, std::memory_order_relaxed);
  } else {
    wait_for_turn(me);
  }
  last_host_ = &me;
}

Scheduler::Participant* Scheduler::add_thread() {
  hosts_.push_back(std::make_unique<Participant>());
  hosts_.back()->number = ++made_;
  return hosts_.back().get();
}

void Scheduler::begin_thread(Participant* thread) {
  adopt(*thread);
  thread->depth = 1;
  wait_for_turn(*thread);
  leave();
}

void Scheduler::end_thread() {
  enter();
  this_thread->ended = true;
  this_thread = nullptr;
  this_threads_scheduler = nullptr;
  give_away();
}

void Scheduler::go_outside() {
  this_thread->state.store(outside, std::memory_order_relaxed);
  give_away();
}

void Scheduler::come_back() {
  come_in(*this_thread);
}

// The holder has no use for the token any more.
void Scheduler::give_away() {
  Participant* const next = choose();
  if (next != nullptr) {
    hand_over(*next);
    return;
  }
  const Locked lock(lock_);
  holder_ = nullptr;
  token_is_free_ = true;
}

// New ones, and those that come back from outside.
void Scheduler::admit_arrivals() {
  const Locked lock(lock_);
  for (Participant* const thread : arrivals_) {
    thread->state.store(asleep, std::memory_order_relaxed);
    if (thread->number != 0) continue;
    thread->number = ++made_;
    hosts_.emplace_back(thread);
  }
  arrivals_.clear();
}

void Scheduler::step() {
  now();
  pass_on(*this_thread);
}

bool Scheduler::wait(const Condition& condition, std::uint64_t deadline) {
  Participant& me = *this_thread;
  me.condition = &condition;
  me.deadline = deadline;
  pass_on(me);
  me.condition = nullptr;
  me.deadline = never;
  return condition.holds();
}

void Scheduler::give_way() {
  class SomeProgress final : public Condition {
   public:
    bool holds() const override { return false; }
    std::string describe() const override { return "a little time to pass"; }
  };
  constexpr std::uint64_t little = 1000;
  wait(SomeProgress(), now_ + little);
}

// --- The choice
// -------------------------------------------------------------------------------------

bool Scheduler::is_ready(const Participant& host) const {
  if (host.ended || host.state.load(std::memory_order_relaxed) == outside) return false;
  if (host.condition == nullptr || host.deadline <= now_) return true;
  return host.condition->holds() || (devices_.failed() && host.condition->ends_with_machine());
}

Scheduler::Participant* Scheduler::choose() {
  while (true) {
    admit_arrivals();
    const bool devices_ready = devices_.can_progress();  // events may happen by it
    ready_.clear();
    bool any_left = false;
    for (const auto& host : hosts_) {
      any_left |= !host->ended;
      if (is_ready(*host)) ready_.push_back(host.get());
    }
    if (!any_left) return nullptr;
    if (!ready_.empty() || devices_ready) {
      Participant* const next = pick(devices_ready);
      if (next != device_thread_.get()) last_host_ = next;
      return next;
    }
    stall();
  }
}

Scheduler::Participant* Scheduler::pick(bool devices_ready) {
  // A host thread mostly goes on with what it does, as it does on a machine with cores to spare.
  constexpr std::size_t switch_odds = 4;
  if (devices_ready) {
    const bool devices_first =
        policy_ == StreamPolicy::eager || (policy_ == StreamPolicy::random && random_.once_in(2));
    if (ready_.empty() || devices_first) return device_thread_.get();
  }
  const bool last_is_ready = std::find(ready_.begin(), ready_.end(), last_host_) != ready_.end();
  if (last_is_ready && !random_.once_in(switch_odds)) return last_host_;
  return ready_[random_.below(ready_.size())];
}

// Everyone waits.
void Scheduler::stall() {
  std::uint64_t deadline = devices_.next_deadline();
  bool anyone_outside = false;
  for (const auto& host : hosts_) {
    if (host->ended) continue;
    anyone_outside |= host->state.load(std::memory_order_relaxed) == outside;
    deadline = std::min(deadline, host->deadline);
  }
  constexpr long patience = 200'000;
  if (anyone_outside) {
    // Who is outside may come back, or write what another waits for.
    sleep_really(patience);
    if (deadline == never) return;
  }
  if (deadline != never) {
    constexpr std::uint64_t long_jump = 10'000'000;
    if (deadline > now_ + long_jump) last_stall_ = describe_waits();
    // Real time passes too while someone is outside; without, the jump is all there is.
    const std::uint64_t now = now_;
    now_ = anyone_outside ? std::min(deadline, now + patience) : std::max(now, deadline);
    return;
  }
  const std::string text = describe_waits();
  if (devices_.failed()) die_of_deadlock(text);
  devices_.report_deadlock(text);
}

// After a fault the waits of the runtime API have ended; what still waits now would do so for ever.
void Scheduler::die_of_deadlock(const std::string& text) {
  std::fprintf(stderr, "emulation: host threads wait for each other:\n%s", text.c_str());
  std::abort();
}

std::string Scheduler::describe_waits() const {
  std::string text = devices_.describe_waits();
  for (const auto& host : hosts_) {
    if (host->ended || host->condition == nullptr) continue;
    text +=
        fmt::format("  host thread {}: waits for {}\n", host->number, host->condition->describe());
  }
  return text;
}

// --- The thread that runs the devices, and the watchdog
// --------------------------------------------------

void Scheduler::run_devices() {
  // For good: what this thread does between fibers is the emulation's business. It must also never
  // acquire anything, since the fibers it makes would be ordered behind that.
  const Inside inside_emulation;
  this_thread_runs_devices = true;
  constexpr std::size_t longest_slice = 200;
  Participant& me = *device_thread_;
  wait_for_turn(me);
  while (stop_ == 0) {
    devices_.run(policy_ == StreamPolicy::random ? 1 + random_.below(longest_slice)
                                                 : longest_slice);
    Participant* const next = choose();  // somebody: only hosts give up the token
    if (next == &me) continue;
    me.state.store(asleep, std::memory_order_relaxed);
    hand_over(*next);
    wait_for_turn(me);
  }
}

void Scheduler::watch() {
  constexpr timespec look_interval{0, 10'000'000};
  constexpr int looks_asleep = 10;    // of a thread that sleeps in a call nobody intercepts
  constexpr int looks_running = 500;  // of one that spins, or computes for long
  std::uint64_t seen = 0;
  int looks = 0;
  while (true) {
    futex_wait(stop_, 0, &look_interval);
    if (stop_ != 0) return;
    {
      const Locked lock(lock_);
      const std::uint64_t turns = turns_.load(std::memory_order_relaxed);
      looks = turns == seen ? looks + 1 : 0;
      seen = turns;
      if (holder_ == nullptr || holder_ == device_thread_.get() || looks < looks_asleep) continue;
      const bool sleeps = kernel_state(holder_->thread) == 'S';
      if (!sleeps && looks < looks_running) continue;
      std::uint32_t expected = running;
      if (!holder_->state.compare_exchange_strong(expected, outside)) continue;
    }
    looks = 0;
    give_away();
  }
}

}  // namespace lockstep::emulation
