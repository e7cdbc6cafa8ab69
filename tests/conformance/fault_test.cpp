// What ranks see when one of them is out of step, late, or gone: an error that says so, on every
// rank, in time, and again at every later call.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "framework/device/cpu/cpu_context.h"
#include "tests/conformance/backend.h"

namespace lockstep::tests {

namespace {

using comm::Communicator;
using comm::ReduceOp;
using comm::Work;
using std::chrono::milliseconds;

class Faults : public testing::TestWithParam<Form> {};

double since(device::Clock::time_point start) {
  return std::chrono::duration<double>(device::Clock::now() - start).count();
}

// What `work` fails with. Throws when it does not fail, or says none of `words`.
RankError failure_of(const std::function<Work()>& call, const std::vector<std::string>& words) {
  try {
    call().wait();
  } catch (const RankError& error) {
    for (const std::string& word : words)
      if (std::string(error.what()).find(word) == std::string::npos)
        throw std::runtime_error(fmt::format("\"{}\" does not say \"{}\"", error.what(), word));
    return error;
  }
  throw std::runtime_error("the collective did not fail");
}

// One rank's memory, and a call on it.
struct Call {
  std::function<Work(Communicator&, Stream&, void* memory)> call;
  std::string words;  // how an error names it
};

Call all_reduce(DType dtype, std::int64_t count, ReduceOp op = ReduceOp::sum,
                comm::Tag tag = comm::no_tag, std::string words = "") {
  return {[=](Communicator& c, Stream& s, void* memory) {
            return c.all_reduce({memory, count, dtype}, op, s, tag);
          },
          words.empty() ? fmt::format("{} {}", count, base::name_of(dtype)) : words};
}

Call reduce(std::int64_t count, int root) {
  return {[=](Communicator& c, Stream& s, void* memory) {
            return c.reduce({memory, count, DType::float32}, ReduceOp::sum, root, s);
          },
          fmt::format("root {}", root)};
}

Call broadcast(std::int64_t count, int root) {
  return {[=](Communicator& c, Stream& s, void* memory) {
            return c.broadcast({memory, count, DType::float32}, root, s);
          },
          "broadcast"};
}

Call barrier() {
  return {[](Communicator& c, Stream& s, void*) { return c.barrier(s); }, "barrier"};
}

// HANG-3. Rank 0 calls one thing, the others another: all get an error with both sides, soon, and
// the same one again.
TEST_P(Faults, RanksThatDisagreeAllGetAnErrorWithBothSides) {
  const std::vector<std::pair<Call, Call>> pairs = {
      {all_reduce(DType::float32, 1000), all_reduce(DType::float32, 998)},
      {all_reduce(DType::float32, 100'000), all_reduce(DType::float32, 1)},
      {all_reduce(DType::float32, 0), all_reduce(DType::float32, 50'000)},
      {all_reduce(DType::float32, 1000), all_reduce(DType::int32, 1000)},
      {all_reduce(DType::float32, 1000, ReduceOp::sum, 3, "bucket 3"),
       all_reduce(DType::float32, 1000, ReduceOp::sum, 4, "bucket 4")},
      {all_reduce(DType::float32, 1000, ReduceOp::sum, 3, "sum"),
       all_reduce(DType::float32, 1000, ReduceOp::max, 3, "max")},
      {reduce(1000, 0), broadcast(1000, 0)},
      {reduce(50'000, 0), broadcast(50'000, 0)},
      {reduce(1000, 1), reduce(1000, 2)},
      {barrier(), all_reduce(DType::float64, 7)},
  };
  for (const auto& [first, rest] : pairs) {
    SCOPED_TRACE(first.words + " against " + rest.words);
    run_form(GetParam(), [&](Rank& rank) {
      const auto communicator = make_communicator(GetParam(), rank);
      const auto stream = device::make_inline_stream();
      std::vector<double> memory(100'000);
      // One that works before, so that the number of the one that does not is known.
      communicator->barrier(*stream).wait();
      const Call& mine = rank.index() == 0 ? first : rest;
      const auto start = device::Clock::now();
      const RankError error =
          failure_of([&] { return mine.call(*communicator, *stream, memory.data()); },
                     {first.words, rest.words, "number 1", "rank 0", "ranks 1, 2, 3"});
      if (since(start) > 10) throw std::runtime_error("the error took its time");
      if (error.rank() != 0) throw std::runtime_error(fmt::format("blames rank {}", error.rank()));
      const RankError again = failure_of([&] { return communicator->barrier(*stream); }, {});
      if (std::string(again.what()) != error.what())
        throw std::runtime_error(
            fmt::format("fails with \"{}\" after \"{}\"", again.what(), error.what()));
    });
  }
}

// comm.check: plan. A call that was not made before is compared; those that were are not, and go
// well. (Backends to which the comparison costs nothing compare all.)
TEST_P(Faults, ANewCallIsCompared) {
  run_form(GetParam(), [&](Rank& rank) {
    const auto communicator =
        make_communicator(GetParam(), rank, std::chrono::seconds(20), comm::AgreementCheck::plan);
    const auto stream = device::make_inline_stream();
    std::vector<float> memory(1000);
    for (int i = 0; i < 5; ++i)
      for (const std::int64_t count : {1000, 10}) {
        std::fill(memory.begin(), memory.end(), 1.0f);
        all_reduce(DType::float32, count).call(*communicator, *stream, memory.data()).wait();
        if (memory[0] != 4 || memory[9] != 4) throw std::runtime_error("a wrong sum");
      }
    const std::int64_t count = rank.index() == 0 ? 998 : 999;
    const RankError error = failure_of(
        [&] {
          return all_reduce(DType::float32, count).call(*communicator, *stream, memory.data());
        },
        {"998 float32", "999 float32", "number 10"});
    if (error.rank() != 0) throw std::runtime_error(fmt::format("blames rank {}", error.rank()));
  });
}

// comm.check: off. What ranks agree about works as ever.
TEST_P(Faults, NothingIsComparedWhereThatIsOff) {
  run_form(GetParam(), [&](Rank& rank) {
    const auto communicator =
        make_communicator(GetParam(), rank, std::chrono::seconds(20), comm::AgreementCheck::off);
    const auto stream = device::make_inline_stream();
    std::vector<float> memory(1000, 1.0f);
    for (float expected = 4; expected < 1e6; expected *= 4) {
      communicator->all_reduce(comm::range_of(std::span(memory)), ReduceOp::sum, *stream).wait();
      for (const float found : memory)
        if (found != expected) throw std::runtime_error("a wrong sum");
    }
    communicator->barrier(*stream).wait();
  });
}

// HANG-4b. One rank does not come: the others say which one it was and to what, within the limit;
// it is told when it comes.
TEST_P(Faults, ARankThatDoesNotComeIsNamed) {
  for (const std::int64_t count : {1000, 100'000}) {
    const auto waits = run_form(GetParam(), [&](Rank& rank) {
      const auto communicator = make_communicator(GetParam(), rank, milliseconds(400));
      const auto stream = device::make_thread_stream("communication");
      std::vector<float> memory(static_cast<std::size_t>(count));
      if (rank.index() == 1) std::this_thread::sleep_for(milliseconds(900));
      const auto start = device::Clock::now();
      const RankError error = failure_of(
          [&] {
            return communicator->all_reduce(comm::range_of(std::span(memory)), ReduceOp::sum,
                                            *stream, 0);
          },
          {"rank 1 did not arrive",
           fmt::format("all_reduce number 0 (bucket 0, {} float32, sum) within 0.4 s", count)});
      if (error.rank() != 1) throw std::runtime_error(fmt::format("blames rank {}", error.rank()));
      const double waited = since(start);
      if (rank.index() == 1) return;
      if (waited > 5) throw std::runtime_error(fmt::format("waited {} s", waited));
      rank.set_digest(static_cast<std::uint64_t>(waited * 1000));
    });
    // The first to give up ends the waits of those who came after it, so only the longest is full.
    EXPECT_GE(*std::max_element(waits.begin(), waits.end()), 390u);
  }
}

TEST_P(Faults, AbortEndsAllWaitsWithItsCause) {
  run_form(GetParam(), [&](Rank& rank) {
    const auto communicator = make_communicator(GetParam(), rank);
    const auto stream = device::make_thread_stream("communication");
    std::vector<float> memory(100'000);
    const auto start = device::Clock::now();
    const auto collective = [&] {
      return communicator->all_reduce(comm::range_of(std::span(memory)), ReduceOp::sum, *stream);
    };
    if (rank.index() == 2) {
      std::this_thread::sleep_for(milliseconds(100));
      communicator->abort(2, "rank 2: cannot read row 17");
      communicator->abort(1, "a later cause");
    }
    const RankError error = failure_of(collective, {"rank 2: cannot read row 17"});
    if (error.rank() != 2) throw std::runtime_error(fmt::format("blames rank {}", error.rank()));
    failure_of(collective, {"rank 2: cannot read row 17"});
    if (since(start) > 5) throw std::runtime_error("the abort took its time");
  });
}

// A rank is killed while all are at it; whoever watches over the ranks aborts the rest.
TEST_P(Faults, AKilledRankEndsTheOthers) {
  if (GetParam().backend->kind != RankKind::processes)
    GTEST_SKIP() << "threads cannot be killed alone";
  const auto reports = run_ranks(GetParam().backend->kind, GetParam().world, [&](Rank& rank) {
    const auto communicator = make_communicator(GetParam(), rank);
    const auto stream = device::make_inline_stream();
    std::thread watch([&] {
      while (rank.lost() < 0) std::this_thread::sleep_for(milliseconds(2));
      communicator->abort(rank.lost(), fmt::format("rank {} was killed", rank.lost()));
      if (communicator->capabilities().survives_loss) return;
      // The backend says that it cannot end what is in progress: the watch has to end the rank.
      std::this_thread::sleep_for(milliseconds(500));
      _exit(0);
    });
    std::jthread killer;
    const auto memory = communicator->addressable_memory(400'000);
    std::vector<float> foreign(100'000);
    const comm::Range data = memory ? comm::Range{memory->local().data(), 100'000, DType::float32}
                                    : comm::range_of(std::span(foreign));
    const RankError error = failure_of(
        [&] {
          for (int i = 0;; ++i) {
            communicator->all_reduce(data, ReduceOp::avg, *stream).wait();
            // Not before all are at it: a rank that is lost in setting up is another matter.
            if (rank.index() == 1 && i == 5)
              killer = std::jthread([] {
                std::this_thread::sleep_for(milliseconds(20));
                raise(SIGKILL);
              });
          }
          return Work();
        },
        {"rank 1 was killed"});
    watch.join();
    if (error.rank() != 1) throw std::runtime_error(fmt::format("blames rank {}", error.rank()));
  });
  for (std::size_t r = 0; r < reports.size(); ++r)
    EXPECT_EQ(reports[r].error, r == 1 ? "killed by signal 9" : "") << "rank " << r;
}

TEST_P(Faults, ArgumentsThatMakeNoSenseAreRefusedAtOnce) {
  run_form(GetParam(), [&](Rank& rank) {
    const auto communicator = make_communicator(GetParam(), rank);
    const auto stream = device::make_inline_stream();
    std::vector<std::int32_t> memory(64);
    const comm::Range data = comm::range_of(std::span(memory));
    const auto refused = [](const char* what, const std::function<Work()>& call) {
      try {
        call();
      } catch (const UsageError&) {
        return;
      }
      throw std::runtime_error(fmt::format("{} was not refused", what));
    };
    const comm::Range half = {memory.data() + 32, 32, DType::int32};
    refused("avg of integers",
            [&] { return communicator->all_reduce(data, ReduceOp::avg, *stream); });
    refused("root 9", [&] { return communicator->broadcast(data, 9, *stream); });
    refused("root -1", [&] { return communicator->reduce(data, ReduceOp::sum, -1, *stream); });
    refused("null", [&] {
      return communicator->broadcast({nullptr, 1, DType::int32}, 0, *stream);
    });
    refused("a negative count", [&] {
      return communicator->broadcast({memory.data(), -1, DType::int32}, 0, *stream);
    });
    refused("an overlap", [&] { return communicator->all_to_all(data, data, *stream); });
    refused("unequal lengths", [&] {
      return communicator->all_to_all({memory.data(), 16, DType::int32}, half, *stream);
    });
    refused("7 over 4 ranks", [&] {
      return communicator->all_to_all({memory.data(), 7, DType::int32},
                                      {half.data, 7, DType::int32}, *stream);
    });
    // Nothing was broken by it.
    communicator->all_reduce(data, ReduceOp::sum, *stream).wait();
  });
}

// COLL-3. What a backend does not say that it offers is refused by name, before anything travels.
TEST_P(Faults, WhatIsNotOfferedIsRefused) {
  run_form(GetParam(), [&](Rank& rank) {
    const auto communicator = make_communicator(GetParam(), rank);
    const auto stream = device::make_inline_stream();
    std::vector<double> memory(4);
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                              DType::int32, DType::int64, DType::uint8})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min}) {
        const bool offered = communicator->capabilities().reduces(dtype, op);
        try {
          communicator->all_reduce({memory.data(), 4, dtype}, op, *stream).wait();
          if (!offered) throw std::runtime_error("took what it does not offer");
        } catch (const UsageError& error) {
          const std::string text = error.what();
          if (offered || text.find(communicator->backend()) == text.npos ||
              text.find(comm::name_of(op)) == text.npos)
            throw std::runtime_error("refused with: " + text);
        }
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, Faults, testing::ValuesIn(quick(forms_of_worlds({4}))),
                         [](const auto& form) { return name_of(form.param); });
INSTANTIATE_TEST_SUITE_P(SlowConformance, Faults, testing::ValuesIn(slow(forms_of_worlds({4}))),
                         [](const auto& form) { return name_of(form.param); });

}  // namespace

}  // namespace lockstep::tests
