// The threads that share one rank's CPU work. With one thread nothing is started and everything
// runs on the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep::device {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // >= 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Calls body(i) once for each i in [0, count), the caller taking part, and returns when all are
  // done. Which thread runs which i is not fixed, so a body must not depend on it. The first
  // exception is rethrown. One caller at a time.
  template <class Body>
  void for_each(std::int64_t count, Body&& body) {
    if (size_ == 1 || count == 1) {
      for (std::int64_t i = 0; i < count; ++i) body(i);
    } else if (count > 1) {
      run(count, std::function<void(std::int64_t)>(std::ref(body)));
    }
  }

 private:
  struct Workers;
  void run(std::int64_t count, const std::function<void(std::int64_t)>& body);

  int size_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace lockstep::device
