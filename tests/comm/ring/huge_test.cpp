// Data of more than 2^31 bytes, and of more than 2^31 elements, through every collective.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "comm/memory/host_memory.h"
#include "comm/ring/algorithm_table.h"
#include "comm/ring/ring.h"
#include "framework/base/units.h"
#include "framework/device/cpu/cpu_context.h"

namespace lockstep::comm::ring {

namespace {

constexpr int ranks = 2;
constexpr std::int64_t count = (std::int64_t{1} << 31) + 4099;

// Cheap, and another one at any place where a 32-bit index would end up.
std::uint8_t value(std::int64_t i, int rank) {
  return static_cast<std::uint8_t>(i + (i >> 13) * 7 + (i >> 31) * 3 + rank * 17);
}

// Memory that nobody touches before the rank does, so that a test takes what it needs.
template <class T>
struct Memory {
  std::unique_ptr<T[]> owner = std::make_unique_for_overwrite<T[]>(count);
  Range range{owner.get(), count, base::dtype_of<T>()};
};

using Body = std::function<void(Communicator&, Stream&)>;

// Skips where `bytes` for all ranks together, and a reserve for the rest of the machine, are not to
// be had.
void run_with(std::size_t bytes, const std::string& algorithm, const Body& body) {
  const std::uint64_t wanted = bytes + (std::uint64_t{1} << 30);
  if (available_memory() < wanted)
    GTEST_SKIP() << "needs " << base::format_bytes(wanted) << " of memory, found "
                 << base::format_bytes(available_memory());
  auto groups = make_thread_groups(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const auto communicator =
          make_ring_communicator(std::move(groups[static_cast<std::size_t>(r)]),
                                 {.timeout = std::chrono::seconds(100), .algorithm = algorithm});
      try {
        body(*communicator, *device::make_inline_stream());
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << r << ": " << error.what();
        communicator->abort(r, error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// In steps that meet every cache page, and all of both ends and of the border at 2^31.
template <class Check>
void look_at(std::int64_t begin, std::int64_t end, Check&& check) {
  constexpr std::int64_t stride = 1021, near = 5000, border = std::int64_t{1} << 31;
  std::int64_t wrong = 0, first = -1;
  for (std::int64_t i = begin; i < end;) {
    if (!check(i)) {
      if (wrong++ == 0) first = i;
    }
    const bool all = i < begin + near || i >= end - near || std::abs(i - border) < near;
    i += all ? 1 : std::min(stride, std::max<std::int64_t>(1, end - near - i));
  }
  EXPECT_EQ(wrong, 0) << "the first is element " << first;
}

void fill(std::uint8_t* data, std::int64_t begin, std::int64_t end, int rank) {
  for (std::int64_t i = begin; i < end; ++i) data[i] = value(i, rank);
}

class SlowHuge : public testing::TestWithParam<std::string_view> {};

TEST_P(SlowHuge, AllReduceOfBytes) {
  run_with(2 * std::size_t{count}, std::string(GetParam()), [](Communicator& c, Stream& stream) {
    const Memory<std::uint8_t> memory;
    fill(memory.owner.get(), 0, count, c.rank());
    c.all_reduce(memory.range, ReduceOp::sum, stream).wait();
    look_at(0, count, [&](std::int64_t i) {
      return memory.owner[static_cast<std::size_t>(i)] ==
             static_cast<std::uint8_t>(value(i, 0) + value(i, 1));
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Algorithms, SlowHuge, testing::ValuesIn(algorithm_names()),
                         [](const auto& name) { return std::string(name.param); });

TEST(SlowHugeData, AllReduceOfBfloat16) {
  run_with(4 * std::size_t{count}, "auto", [](Communicator& c, Stream& stream) {
    const Memory<bfloat16> memory;
    const auto number = [](std::int64_t i, int rank) {
      return static_cast<float>(value(i, rank) % 64);
    };
    for (std::int64_t i = 0; i < count; ++i)
      memory.owner[static_cast<std::size_t>(i)] = bfloat16(number(i, c.rank()));
    c.all_reduce(memory.range, ReduceOp::sum, stream).wait();
    look_at(0, count, [&](std::int64_t i) {
      return static_cast<float>(memory.owner[static_cast<std::size_t>(i)]) ==
             number(i, 0) + number(i, 1);
    });
  });
}

TEST(SlowHugeData, ReduceScatterThenAllGather) {
  run_with(2 * std::size_t{count}, "auto", [](Communicator& c, Stream& stream) {
    const Memory<std::uint8_t> memory;
    fill(memory.owner.get(), 0, count, c.rank());
    const auto is_sum = [&](std::int64_t i) {
      return memory.owner[static_cast<std::size_t>(i)] ==
             static_cast<std::uint8_t>(value(i, 0) + value(i, 1));
    };
    c.reduce_scatter(memory.range, ReduceOp::sum, stream).wait();
    const Slice mine = slice_of(count, c.rank(), ranks);
    look_at(mine.begin, mine.end, is_sum);
    c.all_gather(memory.range, stream).wait();
    look_at(0, count, is_sum);
  });
}

TEST(SlowHugeData, ReduceThenBroadcast) {
  run_with(2 * std::size_t{count}, "auto", [](Communicator& c, Stream& stream) {
    const Memory<std::uint8_t> memory;
    fill(memory.owner.get(), 0, count, c.rank());
    c.reduce(memory.range, ReduceOp::max, 1, stream).wait();
    c.broadcast(memory.range, 1, stream).wait();
    look_at(0, count, [&](std::int64_t i) {
      return memory.owner[static_cast<std::size_t>(i)] == std::max(value(i, 0), value(i, 1));
    });
  });
}

TEST(SlowHugeData, AllToAll) {
  run_with(4 * std::size_t{count}, "auto", [](Communicator& c, Stream& stream) {
    const Memory<std::uint8_t> send, receive;
    constexpr std::int64_t even = count - count % ranks;
    fill(send.owner.get(), 0, even, c.rank());
    c.all_to_all({send.owner.get(), even, DType::uint8}, {receive.owner.get(), even, DType::uint8},
                 stream)
        .wait();
    look_at(0, even, [&](std::int64_t i) {
      const std::int64_t slice = even / ranks, from = i / slice;
      return receive.owner[static_cast<std::size_t>(i)] ==
             value(c.rank() * slice + i % slice, static_cast<int>(from));
    });
  });
}

}  // namespace

}  // namespace lockstep::comm::ring
