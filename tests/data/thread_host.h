// A host whose workers are threads of one process: shared storage for each of them.
#pragma once

#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/shared_storage.h"
#include "framework/base/error.h"

namespace lockstep::data {

class ThreadHost {
 public:
  explicit ThreadHost(int size) : size_(size), barrier_(size) {}

  class Storage final : public SharedStorage {
   public:
    Storage(ThreadHost& host, int rank) : host_(host), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return host_.size_; }
    std::span<std::byte> allocate(std::size_t bytes) override {
      return host_.allocate(allocations_++, bytes);
    }
    void barrier() override { host_.barrier_.arrive_and_wait(); }
    void check() const override {
      if (host_.aborted_) throw RankError(-1, "aborted");
    }

   private:
    ThreadHost& host_;
    int rank_;
    std::size_t allocations_ = 0;
  };

  // Runs body(rank, storage) on a thread for each worker.
  void run(const std::function<void(int, Storage&)>& body) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] {
        Storage storage(*this, rank);
        body(rank, storage);
      });
    }
  }
  void abort() { aborted_ = true; }

 private:
  // The first worker to ask makes the block.
  std::span<std::byte> allocate(std::size_t number, std::size_t bytes) {
    const std::lock_guard guard(mutex_);
    if (number == blocks_.size()) blocks_.push_back(memory_.allocate(bytes));
    return blocks_[number];
  }

  int size_;
  std::barrier<> barrier_;
  std::atomic<bool> aborted_ = false;
  std::mutex mutex_;
  PrivateStorage memory_;
  std::vector<std::span<std::byte>> blocks_;
};

}  // namespace lockstep::data
