#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "framework/device/cpu/cpu_context.h"

namespace lockstep::device {
namespace {

// The tasks of a stream, numbered from 1 in order. Shared with its events, which may outlive the
// stream.
class TaskQueue {
 public:
  std::uint64_t push(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    pushed_.notify_one();
    return ++pushed_count_;
  }

  std::uint64_t pushed() const {
    const std::lock_guard lock(mutex_);
    return pushed_count_;
  }

  bool done(std::uint64_t number) const {
    return done_count_.load(std::memory_order_acquire) >= number;
  }

  bool wait_until(std::uint64_t number, Deadline deadline) const {
    if (done(number)) return true;
    std::unique_lock lock(mutex_);
    const auto is_done = [&] { return done(number); };
    if (deadline == Deadline::max()) {
      finished_.wait(lock, is_done);
      return true;
    }
    return finished_.wait_until(lock, deadline, is_done);
  }

  // No more will be pushed; run() returns when what is there is done.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    pushed_.notify_one();
  }

  void run() noexcept {
    std::unique_lock lock(mutex_);
    while (true) {
      pushed_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // what it holds is released before it counts as done
      lock.lock();
      done_count_.fetch_add(1, std::memory_order_release);
      finished_.notify_all();
    }
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable pushed_;
  mutable std::condition_variable finished_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t pushed_count_ = 0;
  std::atomic<std::uint64_t> done_count_{0};  // written under the mutex
  bool closed_ = false;
};

class TaskEvent final : public EventState {
 public:
  TaskEvent(std::shared_ptr<const TaskQueue> queue, std::uint64_t number)
      : queue_(std::move(queue)), number_(number) {}
  bool done() const override { return queue_->done(number_); }
  bool wait_until(Deadline deadline) const override {
    return queue_->wait_until(number_, deadline);
  }

 private:
  std::shared_ptr<const TaskQueue> queue_;
  std::uint64_t number_;  // of the last task before the event
};

class ThreadStream final : public Stream {
 public:
  explicit ThreadStream(const std::string& name)
      : queue_(std::make_shared<TaskQueue>()), thread_([queue = queue_] { queue->run(); }) {
    constexpr std::size_t longest_name = 15;  // what Linux keeps
    pthread_setname_np(thread_.native_handle(), name.substr(0, longest_name).c_str());
  }
  ~ThreadStream() override {
    queue_->close();
    thread_.join();
  }
  ThreadStream(const ThreadStream&) = delete;
  ThreadStream& operator=(const ThreadStream&) = delete;

  void enqueue(std::function<void()> task) override { queue_->push(std::move(task)); }

  Event record() override { return Event(std::make_shared<TaskEvent>(queue_, queue_->pushed())); }

  void wait(const Event& event) override {
    if (!event.done()) queue_->push([event] { event.wait(); });
  }

  void synchronize() override { queue_->wait_until(queue_->pushed(), Deadline::max()); }

 private:
  std::shared_ptr<TaskQueue> queue_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Stream> make_thread_stream(const std::string& name) {
  return std::make_unique<ThreadStream>(name);
}

}  // namespace lockstep::device
