// Collectives one after the other: back to back, many outstanding on a stream of their own, on
// groups within the group, with ranks that come at different times.
#include <gtest/gtest.h>

#include <thread>

#include "framework/device/cpu/cpu_context.h"
#include "tests/conformance/backend.h"
#include "tests/conformance/tester.h"

namespace lockstep::tests {

namespace {

using comm::ReduceOp;

class Order : public testing::TestWithParam<Form> {};

// Sizes on both sides of every algorithm's limits, the same on every rank.
std::int64_t random_count(std::uint64_t draw) {
  const std::uint64_t bits = mix(draw + 1);
  return static_cast<std::int64_t>((bits >> 8) % (std::uint64_t{1} << (bits % 17)));
}

// Ranks are held up at random, each in its own way.
void delay_at_random(int rank, std::uint64_t draw) {
  const std::uint64_t bits = mix(draw * 64 + static_cast<std::uint64_t>(rank));
  if (bits % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds((bits >> 8) % 500));
}

void all_reduce_many(const Form& form, int times) {
  const auto digests = run_form(form, [&](Rank& rank) {
    const auto communicator = make_communicator(form, rank);
    const auto stream = device::make_inline_stream();
    Tester addressable(*communicator, *stream, Memory::addressable, std::size_t{1} << 18);
    Tester foreign(*communicator, *stream, Memory::foreign, std::size_t{1} << 18);
    for (int i = 0; i < times; ++i) {
      const auto draw = static_cast<std::uint64_t>(i);
      delay_at_random(rank.index(), draw);
      Tester& tester = mix(draw) % 4 == 0 ? foreign : addressable;
      tester.all_reduce(DType::float32, ReduceOp::sum, random_count(draw));
    }
    rank.set_digest(mix(addressable.digest()) + foreign.digest());
  });
  for (const std::uint64_t digest : digests) EXPECT_EQ(digest, digests.front());
}

TEST_P(Order, ManyInARowWithRandomSizesAndDelays) {
  all_reduce_many(GetParam(), 500);
}

TEST_P(Order, SlowTenThousandInARow) {
  all_reduce_many(GetParam(), 10'000);
}

// Large enough for every algorithm to share the work among the ranks, again and again.
TEST_P(Order, ManyLargeInARow) {
  const auto digests = run_form(GetParam(), [&](Rank& rank) {
    const auto communicator = make_communicator(GetParam(), rank);
    const auto stream = device::make_inline_stream();
    const std::int64_t count = 600'000 / rank.size();
    const auto largest = static_cast<std::size_t>(count + 10) * sizeof(float);
    Tester addressable(*communicator, *stream, Memory::addressable, largest);
    Tester foreign(*communicator, *stream, Memory::foreign, largest);
    for (int i = 0; i < 10; ++i) {
      delay_at_random(rank.index(), static_cast<std::uint64_t>(i));
      (i % 3 == 2 ? foreign : addressable).all_reduce(DType::float32, ReduceOp::sum, count + i);
    }
    rank.set_digest(mix(addressable.digest()) + foreign.digest());
  });
  for (const std::uint64_t digest : digests) EXPECT_EQ(digest, digests.front());
}

// All are enqueued before the first is waited for, each with its own part of the memory.
TEST_P(Order, ManyOutstandingOnAThreadStream) {
  run_form(GetParam(), [&](Rank& rank) {
    const auto communicator = make_communicator(GetParam(), rank);
    const auto stream = device::make_thread_stream("communication");
    constexpr int collectives = 60;
    std::vector<std::vector<float>> data;
    std::vector<comm::Work> works;
    for (int i = 0; i < collectives; ++i) {
      data.emplace_back(static_cast<std::size_t>(random_count(static_cast<std::uint64_t>(i))));
      for (std::size_t k = 0; k < data.back().size(); ++k)
        data.back()[k] = static_cast<float>((k + static_cast<std::size_t>(i + rank.index())) % 64);
    }
    for (int i = 0; i < collectives; ++i)
      works.push_back(
          communicator->all_reduce(comm::range_of(std::span(data[static_cast<std::size_t>(i)])),
                                   ReduceOp::sum, *stream, static_cast<comm::Tag>(i)));
    for (int i = collectives - 1; i >= 0; --i) {
      const comm::Work& work = works[static_cast<std::size_t>(i)];
      work.wait();
      if (!work.done() || work.times().end < work.times().start)
        throw std::runtime_error("a collective that was waited for is not done");
      if (i > 0 && work.times().start < works[static_cast<std::size_t>(i - 1)].times().end)
        throw std::runtime_error("collectives overlap on one stream");
      const auto& found = data[static_cast<std::size_t>(i)];
      for (std::size_t k = 0; k < found.size(); ++k) {
        float expected = 0;
        for (int r = 0; r < rank.size(); ++r)
          expected += static_cast<float>((k + static_cast<std::size_t>(i + r)) % 64);
        if (found[k] != expected)
          throw std::runtime_error(fmt::format("collective {}, element {}: found {}, expected {}",
                                               i, k, found[k], expected));
      }
    }
  });
}

TEST_P(Order, BarrierHoldsEveryRankUntilTheLast) {
  run_form(GetParam(), [&](Rank& rank) {
    const auto communicator = make_communicator(GetParam(), rank);
    const auto stream = device::make_inline_stream();
    for (int round = 0; round < 20; ++round) {
      // The count through the store says how many have come; nobody may leave before it is full.
      const std::string counter = fmt::format("round{}", round);
      delay_at_random(rank.index(), static_cast<std::uint64_t>(round));
      rank.store().add(counter, 1);
      communicator->barrier(*stream).wait();
      if (rank.store().add(counter, 0) != rank.size())
        throw std::runtime_error("a rank left the barrier before all had come");
    }
  });
}

TEST_P(Order, GroupsWithinTheGroup) {
  run_form(GetParam(), [&](Rank& rank) {
    const auto communicator = make_communicator(GetParam(), rank);
    const auto stream = device::make_inline_stream();
    // Even and odd ranks, in reverse order; the last rank takes no part.
    const bool takes_part = rank.index() + 1 < rank.size() || rank.size() == 1;
    const int color = takes_part ? rank.index() % 2 : -1;
    const auto part = communicator->split(color, -rank.index());
    if (takes_part != (part != nullptr)) throw std::runtime_error("wrong ranks take part");
    if (part) {
      const int members = rank.size() == 1 ? 1 : (rank.size() - 1 - color + 1) / 2;
      const int place = members - 1 - rank.index() / 2;
      if (part->size() != members || part->rank() != place)
        throw std::runtime_error(fmt::format("rank {} of {}, expected {} of {}", part->rank(),
                                             part->size(), place, members));
      Tester tester(*part, *stream, Memory::addressable, std::size_t{1} << 17);
      for (const std::int64_t count : {1, 100, 30'000})
        tester.all_reduce(DType::float32, ReduceOp::sum, count);
    }
    // The whole group works on, beside its parts.
    Tester tester(*communicator, *stream, Memory::addressable, std::size_t{1} << 17);
    tester.all_reduce(DType::float32, ReduceOp::sum, 30'000);
    if (part) {
      Tester again(*part, *stream, Memory::foreign, std::size_t{1} << 17);
      again.all_gather(DType::float32, 30'000);
    }
  });
}

// 16-bit sums are neither infinite nor zero on the way to an average that fits (COLL-1).
TEST_P(Order, AveragesBeyondTheRangeOfTheirSums) {
  run_form(GetParam(), [&](Rank& rank) {
    const auto communicator = make_communicator(GetParam(), rank);
    if (!communicator->capabilities().reduces(DType::float16, ReduceOp::avg)) return;
    const auto stream = device::make_inline_stream();
    for (const float value : {20'000.0f, 1e-7f}) {
      for (const std::size_t count : {std::size_t{100}, std::size_t{20'000}}) {
        std::vector<float16> data(count, float16(value));
        communicator->all_reduce(comm::range_of(std::span(data)), ReduceOp::avg, *stream).wait();
        for (const float16 found : data)
          if (found != float16(value))
            throw std::runtime_error(
                fmt::format("the average of {} is {}", value, static_cast<float>(found)));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, Order, testing::ValuesIn(quick(forms_of_worlds({3, 8}))),
                         [](const auto& form) { return name_of(form.param); });
INSTANTIATE_TEST_SUITE_P(SlowConformance, Order, testing::ValuesIn(slow(forms_of_worlds({3, 8}))),
                         [](const auto& form) { return name_of(form.param); });

}  // namespace

}  // namespace lockstep::tests
