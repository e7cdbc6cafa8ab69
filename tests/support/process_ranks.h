// Ranks that are processes, for tests: forks a child for each rank and serves them all one store.
//
// The parent must have no threads of its own when it forks (a thread's locks would stay locked in
// the children), so make this before any. A child runs the body and then ends at once; it fails by
// an exception, which it prints, or by a failed expectation. Children die with the parent.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/store/store.h"

namespace lockstep::tests {

class ProcessRanks {
 public:
  using Body = std::function<void(int rank, comm::Store& store)>;

  // Exit codes of a child beside 0.
  static constexpr int failed = 1;
  static constexpr int threw = 2;

  ProcessRanks(int size, const Body& body) {
    std::vector<int> ours, theirs;
    for (int rank = 0; rank <= size; ++rank) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
      ours.push_back(ends[0]);
      theirs.push_back(ends[1]);
    }
    std::fflush(nullptr);  // or each child would print what is buffered again
    const pid_t parent = getpid();
    for (int rank = 0; rank < size; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(threw);
        for (int end : ours) close(end);
        for (int other = 0; other <= size; ++other)
          if (other != rank) close(theirs[static_cast<std::size_t>(other)]);
        run(body, rank, theirs[static_cast<std::size_t>(rank)]);
      }
      children_.push_back({child, 0, false});
    }
    for (int rank = 0; rank < size; ++rank) close(theirs[static_cast<std::size_t>(rank)]);
    server_ = std::make_unique<comm::StoreServer>();
    for (int end : ours) server_->serve(end);
    store_ = comm::connect_store(theirs.back());
  }

  ~ProcessRanks() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank)
      if (!children_[rank].ended) {
        kill(static_cast<int>(rank), SIGKILL);
        waitpid(children_[rank].pid, &children_[rank].status, 0);
      }
  }
  ProcessRanks(const ProcessRanks&) = delete;
  ProcessRanks& operator=(const ProcessRanks&) = delete;

  comm::Store& store() { return *store_; }  // the parent's own client
  pid_t pid(int rank) const { return children_[static_cast<std::size_t>(rank)].pid; }
  void kill(int rank, int signal) { ::kill(pid(rank), signal); }

  // The wait status of a rank that has ended.
  std::optional<int> status(int rank) {
    Child& child = children_[static_cast<std::size_t>(rank)];
    if (!child.ended) child.ended = waitpid(child.pid, &child.status, WNOHANG) == child.pid;
    return child.ended ? std::optional(child.status) : std::nullopt;
  }

  // Waits until every child has ended; kills those that have not after `limit`. Returns the wait
  // status of each rank (0: all well).
  std::vector<int> wait(std::chrono::seconds limit = std::chrono::seconds(30)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    std::vector<int> statuses;
    for (Child& child : children_) {
      while (!child.ended) {
        if (waitpid(child.pid, &child.status, WNOHANG) == child.pid) {
          child.ended = true;
        } else if (std::chrono::steady_clock::now() >= deadline) {
          ADD_FAILURE() << "process " << child.pid << " still ran after " << limit.count() << " s";
          ::kill(child.pid, SIGKILL);
          waitpid(child.pid, &child.status, 0);
          child.ended = true;
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
      }
      statuses.push_back(child.status);
    }
    return statuses;
  }

  void expect_success(std::chrono::seconds limit = std::chrono::seconds(30)) {
    const std::vector<int> statuses = wait(limit);
    for (std::size_t rank = 0; rank < statuses.size(); ++rank)
      EXPECT_EQ(statuses[rank], 0) << "rank " << rank;
  }

 private:
  struct Child {
    pid_t pid;
    int status;
    bool ended;
  };

  // Failed expectations of the running test so far, those before the fork included.
  static int failures() {
    const ::testing::TestResult& result =
        *::testing::UnitTest::GetInstance()->current_test_info()->result();
    int count = 0;
    for (int part = 0; part < result.total_part_count(); ++part)
      count += result.GetTestPartResult(part).failed();
    return count;
  }

  [[noreturn]] static void run(const Body& body, int rank, int socket) {
    int code = 0;
    const int failures_of_parent = failures();
    try {
      const std::shared_ptr<comm::Store> store = comm::connect_store(socket);
      body(rank, *store);
      if (failures() != failures_of_parent) code = failed;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      code = threw;
    }
    std::fflush(nullptr);
    _exit(code);  // without the clean-up that belongs to the parent
  }

  std::vector<Child> children_;
  std::unique_ptr<comm::StoreServer> server_;
  std::shared_ptr<comm::Store> store_;
};

// Runs `body` on `size` ranks that are processes; a failure of one is one of the test.
inline void run_as_processes(int size, const ProcessRanks::Body& body) {
  ProcessRanks(size, body).expect_success();
}

}  // namespace lockstep::tests
