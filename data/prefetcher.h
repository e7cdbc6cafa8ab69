// Prefetcher: fills a ring of slots ahead of their use, on a thread of its own. Private to this
// folder.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace lockstep::data {

// start(), stop() and next() are called by one thread, the consumer. There are depth + 1 slots:
// `depth` filled ahead and one in the consumer's hands. With depth 0 there is no thread and next()
// fills.
class Prefetcher {
 public:
  // `fill(slot, stop)` is called for the slots in turn; it throws what next() is to throw in its
  // place, or Cancelled when `stop` was requested.
  using Fill = std::function<void(std::size_t slot, const std::stop_token& stop)>;

  Prefetcher(std::size_t depth, Fill fill) : depth_(depth), fill_(std::move(fill)) {}
  ~Prefetcher() { stop(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  std::size_t slots() const { return depth_ + 1; }
  bool running() const { return running_; }
  void start();
  void stop();  // waits for a fill in progress, which sees its stop token
  // The next slot, in the order of filling; the one handed out before may be filled again.
  std::size_t next();

 private:
  void run(const std::stop_token& stop);

  const std::size_t depth_;
  const Fill fill_;
  bool running_ = false;  // the consumer's

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t filled_ = 0;     // slots ready and not handed out
  std::size_t next_slot_ = 0;  // to hand out
  std::exception_ptr error_;   // what ended the thread
  std::jthread thread_;
};

}  // namespace lockstep::data
