// Runs one function on every rank of a world of threads.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/memory/group.h"
#include "framework/device/context.h"

namespace lockstep::train {

struct Rank {
  Context& context;
  comm::Communicator& communicator;
};

// What ranks are made of, of which each test program has one kind: CPUs (cpu_ranks.cpp) or GPUs
// (cuda/gpu_ranks.cpp).
std::unique_ptr<Context> make_rank_context(int rank);
std::unique_ptr<comm::Communicator> make_rank_communicator(
    Context& context, std::unique_ptr<comm::Group> group, const comm::CommunicatorOptions& options);

// Returns what each rank threw. A rank that throws aborts the others.
inline std::vector<std::exception_ptr> run_ranks_catching(
    int size, const std::function<void(Rank)>& body,
    const comm::CommunicatorOptions& options = {}) {
  auto groups = comm::make_thread_groups(size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      const auto context = make_rank_context(rank);
      const auto communicator = make_rank_communicator(*context, std::move(groups[r]), options);
      try {
        body({*context, *communicator});
      } catch (const std::exception& error) {
        errors[r] = std::current_exception();
        communicator->abort(rank, error.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

inline void run_ranks(int size, const std::function<void(Rank)>& body,
                      const comm::CommunicatorOptions& options = {}) {
  for (const auto& error : run_ranks_catching(size, body, options))
    if (error) std::rethrow_exception(error);
}

inline std::string message_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
  return "";
}

}  // namespace lockstep::train
