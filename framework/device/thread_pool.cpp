#include "framework/device/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/spin.h"

namespace lockstep::device {
namespace {

// About 20 us: the gap between two parallel loops of a training step. Beyond it a thread sleeps and
// leaves its core to others.
constexpr int spin_rounds = 1000;

}  // namespace

// One loop at a time is open. Threads that wake while it is open join it; the caller works too and
// closes it when no index is left, so a thread that the system schedules late holds nobody up.
struct ThreadPool::Workers {
  std::mutex mutex;
  std::condition_variable opened;
  std::condition_variable left;
  const std::function<void(std::int64_t)>* body = nullptr;  // of the open loop
  std::int64_t count = 0;
  std::exception_ptr error;
  bool stop = false;
  // Written under the mutex; read without it by threads that spin.
  std::atomic<std::uint64_t> loops{0};  // opened so far, and one more at the end
  std::atomic<int> inside{0};           // threads other than the caller in the open loop
  std::atomic<std::int64_t> next{0};    // the next index of the open loop
  std::vector<std::thread> threads;

  void start(int number);
  void stop_and_join() noexcept;
  void work();
  void drain(const std::function<void(std::int64_t)>& loop_body, std::int64_t loop_count) noexcept;
};

void ThreadPool::Workers::start(int number) {
  for (int i = 0; i < number; ++i) {
    threads.emplace_back([this] { work(); });
    pthread_setname_np(threads.back().native_handle(),
                       ("compute " + std::to_string(i + 1)).c_str());
  }
}

void ThreadPool::Workers::stop_and_join() noexcept {
  {
    const std::lock_guard lock(mutex);
    stop = true;
    ++loops;
  }
  opened.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void ThreadPool::Workers::work() {
  std::uint64_t seen = 0;
  while (true) {
    base::spin_until([&] { return loops.load(std::memory_order_acquire) != seen; }, spin_rounds);
    std::unique_lock lock(mutex);
    opened.wait(lock, [&] { return loops != seen; });
    seen = loops;
    if (stop) return;
    if (body == nullptr) continue;
    const auto& loop_body = *body;
    const std::int64_t loop_count = count;
    ++inside;
    lock.unlock();

    drain(loop_body, loop_count);

    lock.lock();
    if (--inside == 0) left.notify_one();
  }
}

void ThreadPool::Workers::drain(const std::function<void(std::int64_t)>& loop_body,
                                std::int64_t loop_count) noexcept {
  try {
    const auto take = [&] { return next.fetch_add(1, std::memory_order_relaxed); };
    for (std::int64_t i = take(); i < loop_count; i = take()) loop_body(i);
  } catch (...) {
    next = loop_count;  // the others stop too
    const std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
  }
}

ThreadPool::ThreadPool(int threads) : size_(threads) {
  if (threads < 1) {
    throw UsageError("ThreadPool: " + std::to_string(threads) + " threads, expected at least 1");
  }
  if (threads == 1) return;
  workers_ = std::make_unique<Workers>();
  try {
    workers_->start(threads - 1);
  } catch (...) {
    workers_->stop_and_join();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  if (workers_) workers_->stop_and_join();
}

void ThreadPool::run(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  Workers& workers = *workers_;
  {
    const std::lock_guard lock(workers.mutex);
    if (workers.body != nullptr) {
      throw UsageError("ThreadPool::for_each: a loop of this pool is running already");
    }
    workers.body = &body;
    workers.count = count;
    workers.next = 0;
    ++workers.loops;
  }
  workers.opened.notify_all();
  workers.drain(body, count);

  base::spin_until([&] { return workers.inside.load(std::memory_order_relaxed) == 0; },
                   spin_rounds);
  std::unique_lock lock(workers.mutex);
  workers.left.wait(lock, [&] { return workers.inside == 0; });
  workers.body = nullptr;
  if (const std::exception_ptr error = std::exchange(workers.error, nullptr)) {
    lock.unlock();
    std::rethrow_exception(error);
  }
}

}  // namespace lockstep::device
