// Runs a body on every rank of a group, with ranks that are threads or processes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "comm/memory/group.h"
#include "tests/support/process_ranks.h"

namespace lockstep::comm::testing {

enum class RankKind { threads, processes };

inline std::string name_of(RankKind kind) {
  return kind == RankKind::threads ? "Threads" : "Processes";
}

inline device::Deadline soon() {
  return device::Clock::now() + std::chrono::seconds(20);
}

using GroupBody = std::function<void(Group& group)>;

inline void run_as_threads(int size, const GroupBody& body) {
  const auto groups = make_thread_groups(size);
  std::vector<std::thread> threads;
  for (const auto& group : groups)
    threads.emplace_back([&] {
      try {
        body(*group);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << group->rank() << ": " << error.what();
        group->abort(group->rank(), error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
}

inline void run_ranks(RankKind kind, int size, const GroupBody& body) {
  if (kind == RankKind::threads) return run_as_threads(size, body);
  tests::run_as_processes(size, [&](int rank, Store& store) {
    body(*make_process_group(store, "group", rank, size, std::chrono::seconds(20)));
  });
}

// What `call` throws; an empty text and rank -2 where it throws nothing.
struct Caught {
  int rank = -2;
  std::string message;
};

template <class Call>
Caught catch_rank_error(Call&& call) {
  try {
    call();
  } catch (const RankError& error) {
    return {error.rank(), error.what()};
  }
  return {};
}

}  // namespace lockstep::comm::testing
