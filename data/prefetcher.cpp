#include "data/prefetcher.h"

#include "data/row_store.h"

namespace lockstep::data {

void Prefetcher::start() {
  stop();
  filled_ = 0;
  next_slot_ = 0;
  error_ = nullptr;
  running_ = true;
  if (depth_ > 0) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Prefetcher::stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  running_ = false;
}

void Prefetcher::run(const std::stop_token& stop) {
  for (std::size_t slot = 0;; slot = (slot + 1) % slots()) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return filled_ < depth_; })) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      fill_(slot, stop);
    } catch (const Cancelled&) {
      return;
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    if (!error) ++filled_;
    changed_.notify_all();
    if (error) return;
  }
}

std::size_t Prefetcher::next() {
  if (depth_ == 0) {
    fill_(0, {});
    return 0;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return filled_ > 0 || error_; });
  if (filled_ == 0) std::rethrow_exception(error_);
  const std::size_t slot = next_slot_;
  next_slot_ = (next_slot_ + 1) % slots();
  --filled_;
  changed_.notify_all();
  return slot;
}

}  // namespace lockstep::data
