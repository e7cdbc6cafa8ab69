// Ranks that are threads of this process, for tests, sanitizers and several ranks on one device.
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

#include "comm/store/store.h"
#include "framework/base/error.h"
#include "train/launch/launched_worker.h"
#include "train/launch/ranks.h"

namespace lockstep::train {
namespace {

// What happened on the ranks' threads, for the supervisor's.
class Mailbox {
 public:
  Mailbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_) throw StartupError(std::string("cannot make an event: ") + std::strerror(errno));
  }

  int descriptor() const { return event_.get(); }
  void put(const Failure& failure) {
    {
      const std::lock_guard lock(mutex_);
      failures_.push_back(failure);
    }
    wake();
  }
  void wake() {
    const std::uint64_t one = 1;
    if (::write(event_.get(), &one, sizeof one) != sizeof one) std::abort();
  }
  std::vector<Failure> take() {
    std::uint64_t count = 0;
    // Nothing to read means that nobody woke the supervisor; the failures are looked at anyway.
    [[maybe_unused]] const ssize_t size = ::read(event_.get(), &count, sizeof count);
    const std::lock_guard lock(mutex_);
    return std::exchange(failures_, {});
  }

 private:
  comm::Descriptor event_;
  std::mutex mutex_;
  std::vector<Failure> failures_;
};

class ThreadWorker final : public LaunchedWorker {
 public:
  ThreadWorker(int rank, Scoreboard& scoreboard, comm::Store& store, comm::ThreadGroups& groups,
               Mailbox& mailbox)
      : LaunchedWorker(rank, scoreboard), store_(store), groups_(groups), mailbox_(mailbox) {}

  comm::Store& store() override { return store_; }

  using LaunchedWorker::join;
  std::unique_ptr<comm::Group> join(const std::string& name, int rank, int size,
                                    std::chrono::milliseconds start_timeout) override {
    const auto key = [&](int member) { return fmt::format("launch/{}/{}", name, member); };
    const auto deadline = std::chrono::steady_clock::now() + start_timeout;
    store_.set(key(rank), "");
    std::vector<int> missing;
    for (int other = 0; other < size; ++other) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      try {
        store_.get(key(other), std::max(left, std::chrono::milliseconds(0)));
      } catch (const StartupError&) {
        missing.push_back(other);
      }
    }
    if (!missing.empty()) {
      throw StartupError(fmt::format("rank {} did not come within {} ms", fmt::join(missing, ", "),
                                     start_timeout.count()));
    }
    return groups_.take(name, rank, size);
  }

 private:
  void send(const Failure& failure) override { mailbox_.put(failure); }

  comm::Store& store_;
  comm::ThreadGroups& groups_;
  Mailbox& mailbox_;
};

class ThreadRanks final : public Ranks {
 public:
  ThreadRanks(const LaunchOptions& options, Scoreboard& scoreboard)
      : store_(comm::make_memory_store()) {
    for (const auto& [key, value] : options.settings) store_->set(key, value);
    for (int rank = 0; rank < options.workers; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(rank, scoreboard, *store_, groups_, mailbox_));
    }
  }
  ~ThreadRanks() override {
    for (const auto& rank : ranks_) {
      if (rank->thread.joinable()) rank->thread.join();
    }
  }

  void start(const Body& body) {
    for (const auto& rank : ranks_) {
      rank->thread = std::thread([this, &body, &rank = *rank] {
        rank.worker.run(body);
        rank.alive = false;
        mailbox_.wake();
      });
    }
  }

  std::vector<pollfd> sources() const override {
    return {{.fd = mailbox_.descriptor(), .events = POLLIN, .revents = 0}};
  }
  Happenings collect() override { return {.failures = mailbox_.take()}; }
  bool is_alive(int rank) const override { return ranks_[static_cast<std::size_t>(rank)]->alive; }
  void abort(int rank, int guilty, const std::string& cause) override {
    ranks_[static_cast<std::size_t>(rank)]->worker.abort(guilty, cause);
  }
  bool kill() override { return false; }

 private:
  struct Rank {
    Rank(int rank, Scoreboard& scoreboard, comm::Store& store, comm::ThreadGroups& groups,
         Mailbox& mailbox)
        : worker(rank, scoreboard, store, groups, mailbox) {}
    ThreadWorker worker;
    std::atomic<bool> alive = true;
    std::thread thread;
  };

  std::shared_ptr<comm::Store> store_;
  comm::ThreadGroups groups_;
  Mailbox mailbox_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace

std::unique_ptr<Ranks> start_threads(const LaunchOptions& options, Scoreboard& scoreboard,
                                     const Body& body) {
  auto ranks = std::make_unique<ThreadRanks>(options, scoreboard);
  ranks->start(body);
  return ranks;
}

}  // namespace lockstep::train
