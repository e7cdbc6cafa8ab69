// The calls in which host threads wait for each other, for time or for files, taken over from the
// linker (--wrap, see CMakeLists.txt) so that the scheduler sees them: a thread that takes part
// waits there for its turn, in virtual time. For all other threads, and without a machine, they are
// the real ones. The mutexes stay real, so ThreadSanitizer sees the order that they make.
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdarg>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulation/machine.h"
#include "tests/emulation/sanitizer.h"
#include "tests/emulation/virtual_clock.h"

extern "C" {
int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __real_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* deadline);
int __real_pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  const timespec* deadline);
int __real_nanosleep(const timespec* duration, timespec* left);
int __real_clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left);
int __real_sched_yield();
int __real_poll(pollfd* files, nfds_t count, int milliseconds);
long __real_syscall(long number, ...);
void __real__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>& lock);
void __real__ZNSt18condition_variable10notify_oneEv(std::condition_variable* condition);
void __real__ZNSt18condition_variable10notify_allEv(std::condition_variable* condition);
void __real__ZNSt6thread4joinEv(std::thread* thread);
void __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* thread, std::thread::_State_ptr state, void (*depend)());
}

namespace lockstep::emulation {
namespace {

constexpr std::uint64_t nanoseconds_per_second = 1'000'000'000;

// While one exists the calling thread, which takes part, is inside the emulation.
class Hook {
 public:
  Hook() : scheduler_(Machine::current().scheduler()) { scheduler_.enter(); }
  ~Hook() { scheduler_.leave(); }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  Scheduler& scheduler() const { return scheduler_; }

 private:
  Inside inside_;
  Scheduler& scheduler_;
};

std::uint64_t nanoseconds(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * nanoseconds_per_second +
         static_cast<std::uint64_t>(time.tv_nsec);
}

// A deadline on `clock` as virtual time. Real-time clocks are taken as running beside the virtual
// one.
std::uint64_t virtual_deadline(const Hook& hook, clockid_t clock, const timespec& deadline) {
  const std::uint64_t at = nanoseconds(deadline);
  if (clock == CLOCK_MONOTONIC) {
    const std::uint64_t start = VirtualClock::start();
    return at > start ? at - start : 0;
  }
  timespec real;
  clock_gettime(clock, &real);
  const std::uint64_t now = nanoseconds(real);
  return hook.scheduler().now() + (at > now ? at - now : 0);
}

// Waiting that another thread ends by naming the same address.
class Wakeup final : public Condition {
 public:
  explicit Wakeup(const char* what) : what_(what) {}
  bool holds() const override { return woken_; }
  std::string describe() const override { return what_; }
  bool ends_with_machine() const override { return false; }
  void wake() { woken_ = true; }

 private:
  const char* what_;
  bool woken_ = false;
};

// Who waits at which address. Touched by the holder of the token.
class Sleepers {
 public:
  void add(const void* address, Wakeup& wakeup) { waiting_[address].push_back(&wakeup); }
  void remove(const void* address, const Wakeup& wakeup) {
    const auto found = waiting_.find(address);
    std::erase(found->second, &wakeup);
    if (found->second.empty()) waiting_.erase(found);
  }
  int wake(const void* address, int count, Random& random) {
    const auto found = waiting_.find(address);
    if (found == waiting_.end()) return 0;
    std::vector<Wakeup*> asleep;
    for (Wakeup* const wakeup : found->second) {
      if (!wakeup->holds()) asleep.push_back(wakeup);
    }
    random.shuffle(asleep);
    int woken = 0;
    for (; woken < count && !asleep.empty(); ++woken, asleep.pop_back()) asleep.back()->wake();
    return woken;
  }

 private:
  std::map<const void*, std::vector<Wakeup*>> waiting_;
};
Sleepers sleepers;

class Never final : public Condition {
 public:
  bool holds() const override { return false; }
  std::string describe() const override { return "time to pass"; }
  bool ends_with_machine() const override { return false; }
};

class MutexIsFree final : public Condition {
 public:
  explicit MutexIsFree(const pthread_mutex_t& mutex) : mutex_(mutex) {}
  bool holds() const override {
    return *static_cast<const volatile int*>(&mutex_.__data.__lock) == 0;
  }
  std::string describe() const override { return "a mutex"; }
  bool ends_with_machine() const override { return false; }

 private:
  const pthread_mutex_t& mutex_;
};

class ThreadHasEnded final : public Condition {
 public:
  explicit ThreadHasEnded(const Scheduler::Participant* thread) : thread_(thread) {}
  bool holds() const override { return Scheduler::has_ended(thread_); }
  std::string describe() const override { return "a thread to end"; }
  bool ends_with_machine() const override { return false; }

 private:
  const Scheduler::Participant* thread_;
};

class FilesAreReady final : public Condition {
 public:
  FilesAreReady(pollfd* files, nfds_t count) : files_(files), count_(count) {}
  // Not poll(): another thread asks, whose reading of the list ThreadSanitizer would take for a
  // race.
  bool holds() const override { return __real_syscall(SYS_poll, files_, count_, 0) != 0; }
  std::string describe() const override { return "files or sockets"; }
  bool ends_with_machine() const override { return false; }

 private:
  pollfd* files_;
  nfds_t count_;
};

bool takes_part() {
  return Scheduler::runs_own_code() && Machine::installed() != nullptr;
}

int lock(pthread_mutex_t* mutex) {
  while (true) {
    const int status = pthread_mutex_trylock(mutex);
    if (status != EBUSY) return status;
    const Hook hook;
    hook.scheduler().wait(MutexIsFree(*mutex), never);
  }
}

// False when the deadline passed first.
bool wait_for_notification(const Hook& hook, const void* condition, pthread_mutex_t* mutex,
                           std::uint64_t deadline) {
  Wakeup wakeup("a condition variable");
  sleepers.add(condition, wakeup);
  pthread_mutex_unlock(mutex);
  const bool woken = hook.scheduler().wait(wakeup, deadline);
  sleepers.remove(condition, wakeup);
  lock(mutex);
  return woken;
}

void sleep_until(const Hook& hook, std::uint64_t time) {
  hook.scheduler().wait(Never(), time);
}

void notify(const void* condition, int count) {
  const Hook hook;
  sleepers.wake(condition, count, Machine::current().devices().random());
}

// A thread that was started by one that takes part.
class ScheduledThread final : public std::thread::_State {
 public:
  ScheduledThread(Scheduler& scheduler, std::thread::_State_ptr function)
      : scheduler_(scheduler),
        participant_(scheduler.add_thread()),
        function_(std::move(function)) {}
  Scheduler::Participant* participant() const { return participant_; }
  void _M_run() override {
    scheduler_.begin_thread(participant_);
    function_->_M_run();
    function_.reset();
    scheduler_.end_thread();
  }

 private:
  Scheduler& scheduler_;
  Scheduler::Participant* participant_;
  std::thread::_State_ptr function_;
};

// By the handle, until they are joined.
std::map<pthread_t, const Scheduler::Participant*> scheduled_threads;

long futex_wait(const std::uint32_t* word, std::uint32_t value, bool absolute,
                const timespec* time) {
  const Hook hook;
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
    errno = EAGAIN;
    return -1;
  }
  std::uint64_t deadline = never;
  if (time != nullptr) {
    deadline = absolute ? virtual_deadline(hook, CLOCK_MONOTONIC, *time)
                        : hook.scheduler().now() + nanoseconds(*time);
  }
  Wakeup wakeup("a futex");
  sleepers.add(word, wakeup);
  const bool woken = hook.scheduler().wait(wakeup, deadline);
  sleepers.remove(word, wakeup);
  if (woken) return 0;
  errno = ETIMEDOUT;
  return -1;
}

}  // namespace
}  // namespace lockstep::emulation

using namespace lockstep::emulation;

extern "C" {

// --- Time
// -------------------------------------------------------------------------------------------------

std::chrono::steady_clock::time_point __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  std::uint64_t now = 0;
  if (takes_part()) {
    const Hook hook;
    now = hook.scheduler().now();
  } else if (Machine* const machine = Machine::installed()) {
    now = machine->scheduler().last_time();
  }
  const auto since = static_cast<std::int64_t>(VirtualClock::start() + now);
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(since));
}

int __wrap_nanosleep(const timespec* duration, timespec* left) {
  if (!takes_part()) return __real_nanosleep(duration, left);
  const Hook hook;
  sleep_until(hook, hook.scheduler().now() + nanoseconds(*duration));
  return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  if (!takes_part()) return __real_clock_nanosleep(clock, flags, time, left);
  const Hook hook;
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  sleep_until(hook, absolute ? virtual_deadline(hook, clock, *time)
                             : hook.scheduler().now() + nanoseconds(*time));
  return 0;
}

int __wrap_sched_yield() {
  if (!takes_part()) return __real_sched_yield();
  const Hook hook;
  hook.scheduler().give_way();
  return 0;
}

int __wrap_poll(pollfd* files, nfds_t count, int milliseconds) {
  if (!takes_part() || milliseconds == 0) return __real_poll(files, count, milliseconds);
  const Hook hook;
  constexpr std::uint64_t nanoseconds_per_millisecond = 1'000'000;
  const std::uint64_t deadline =
      milliseconds < 0 ? never
                       : hook.scheduler().now() +
                             static_cast<std::uint64_t>(milliseconds) * nanoseconds_per_millisecond;
  hook.scheduler().wait(FilesAreReady(files, count), deadline);
  return __real_poll(files, count, 0);
}

// --- Mutexes and condition variables
// --------------------------------------------------------------------------

int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  return takes_part() ? lock(mutex) : __real_pthread_mutex_lock(mutex);
}

void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>& lock) {
  if (!takes_part()) {
    __real__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(condition, lock);
    return;
  }
  const Hook hook;
  wait_for_notification(hook, condition, lock.mutex()->native_handle(), never);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* deadline) {
  if (!takes_part()) return __real_pthread_cond_clockwait(condition, mutex, clock, deadline);
  const Hook hook;
  return wait_for_notification(hook, condition, mutex, virtual_deadline(hook, clock, *deadline))
             ? 0
             : ETIMEDOUT;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  const timespec* deadline) {
  if (!takes_part()) return __real_pthread_cond_timedwait(condition, mutex, deadline);
  const Hook hook;
  return wait_for_notification(hook, condition, mutex,
                               virtual_deadline(hook, CLOCK_REALTIME, *deadline))
             ? 0
             : ETIMEDOUT;
}

// A thread that takes no part may wait on the same condition variable.
void __wrap__ZNSt18condition_variable10notify_oneEv(std::condition_variable* condition) {
  if (takes_part()) notify(condition, 1);
  __real__ZNSt18condition_variable10notify_oneEv(condition);
}

void __wrap__ZNSt18condition_variable10notify_allEv(std::condition_variable* condition) {
  if (takes_part()) notify(condition, INT_MAX);
  __real__ZNSt18condition_variable10notify_allEv(condition);
}

// Every system call comes by here; only futexes are of interest.
long __wrap_syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && takes_part()) {
    auto* const word = reinterpret_cast<std::uint32_t*>(a[0]);
    const long operation = a[1] & FUTEX_CMD_MASK;
    const auto* const time = reinterpret_cast<const timespec*>(a[3]);
    if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) {
      return futex_wait(word, static_cast<std::uint32_t>(a[2]), operation == FUTEX_WAIT_BITSET,
                        time);
    }
    if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) {
      notify(word, static_cast<int>(a[2]));
    }
  }
  return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// --- Threads
// ----------------------------------------------------------------------------------------------------

void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* thread, std::thread::_State_ptr state, void (*depend)()) {
  if (!takes_part()) {
    __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
        thread, std::move(state), depend);
    return;
  }
  const Hook hook;
  auto scheduled = std::make_unique<ScheduledThread>(hook.scheduler(), std::move(state));
  const Scheduler::Participant* const participant = scheduled->participant();
  __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
      thread, std::move(scheduled), depend);
  scheduled_threads[thread->native_handle()] = participant;
}

void __wrap__ZNSt6thread4joinEv(std::thread* thread) {
  if (takes_part()) {
    const Hook hook;
    const auto found = scheduled_threads.find(thread->native_handle());
    if (found == scheduled_threads.end()) {
      hook.scheduler().go_outside();
      __real__ZNSt6thread4joinEv(thread);
      hook.scheduler().come_back();
      return;
    }
    hook.scheduler().wait(ThreadHasEnded(found->second), never);
    scheduled_threads.erase(found);
  }
  __real__ZNSt6thread4joinEv(thread);
}

}  // extern "C"
