#include "tests/support/local_ranks.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cstring>
#include <new>
#include <thread>

#include "tests/support/process_ranks.h"

namespace lockstep::tests {

namespace {

using comm::Group;
using comm::Store;

class ThreadRank final : public Rank {
 public:
  ThreadRank(int index, int size, Store& store, std::uint64_t& digest, const std::atomic<int>& lost,
             comm::ThreadGroups& groups)
      : Rank(index, size, store, digest, lost), groups_(groups) {}
  std::unique_ptr<Group> join(const std::string& name, int rank, int size) override {
    return groups_.take(name, rank, size);
  }

 private:
  comm::ThreadGroups& groups_;
};

class ProcessRank final : public Rank {
 public:
  using Rank::Rank;
  std::unique_ptr<Group> join(const std::string& name, int rank, int size) override {
    return comm::make_process_group(store(), name, rank, size, std::chrono::seconds(30));
  }
  ProcessRank(int index, int size, Store& store, std::uint64_t& digest,
              const std::atomic<int>& lost)
      : Rank(index, size, store, digest, lost) {}
};

std::vector<RankReport> run_threads(int size, const RankBody& body) {
  std::vector<RankReport> reports(static_cast<std::size_t>(size));
  const std::atomic<int> lost = -1;
  const auto store = comm::make_memory_store();
  comm::ThreadGroups groups;
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      RankReport& report = reports[static_cast<std::size_t>(r)];
      try {
        ThreadRank rank(r, size, *store, report.digest, lost, groups);
        body(rank);
      } catch (const std::exception& error) {
        report.error = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reports;
}

// Memory that forked ranks share with their parent.
class Board {
 public:
  struct Line {
    std::uint64_t digest;
    char error[4088];
  };

  explicit Board(int size)
      : bytes_(sizeof(std::atomic<int>) + 64 + sizeof(Line) * static_cast<std::size_t>(size)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    lost().store(-1);
  }
  ~Board() { munmap(memory_, bytes_); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  std::atomic<int>& lost() const { return *static_cast<std::atomic<int>*>(memory_); }
  Line& line(int rank) const {
    return reinterpret_cast<Line*>(static_cast<std::byte*>(memory_) + 64)[rank];
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

// Publishes the first rank that dies.
std::vector<RankReport> collect(int size, ProcessRanks& ranks, Board& board) {
  std::vector<RankReport> reports(static_cast<std::size_t>(size));
  std::vector<bool> ended(static_cast<std::size_t>(size));
  for (int alive = size; alive > 0;) {
    for (int rank = 0; rank < size; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const std::optional<int> status = ended[r] ? std::nullopt : ranks.status(rank);
      if (!status) continue;
      ended[r] = true;
      --alive;
      reports[r] = {board.line(rank).error, board.line(rank).digest};
      if (!WIFSIGNALED(*status)) continue;
      reports[r].error = fmt::format("killed by signal {}", WTERMSIG(*status));
      int nobody = -1;
      board.lost().compare_exchange_strong(nobody, rank);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return reports;
}

std::vector<RankReport> run_processes(int size, const RankBody& body) {
  Board board(size);
  ProcessRanks ranks(size, [&](int index, Store& store) {
    Board::Line& line = board.line(index);
    try {
      ProcessRank rank(index, size, store, line.digest, board.lost());
      body(rank);
    } catch (const std::exception& error) {
      std::strncpy(line.error, error.what(), sizeof line.error - 1);
    }
  });
  return collect(size, ranks, board);
}

}  // namespace

std::string_view name_of(RankKind kind) {
  return kind == RankKind::threads ? "threads" : "processes";
}

std::vector<RankReport> run_ranks(RankKind kind, int size, const RankBody& body) {
  return kind == RankKind::threads ? run_threads(size, body) : run_processes(size, body);
}

}  // namespace lockstep::tests
