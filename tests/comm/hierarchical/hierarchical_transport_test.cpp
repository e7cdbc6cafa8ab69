// The pipeline of a hierarchical all-reduce, between threads: its other level is a ring too, behind
// the interface of a library that passes messages, and can be told to fail.
#include "comm/hierarchical/hierarchical_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "comm/ring/ring.h"
#include "framework/device/cpu/cpu_context.h"

namespace lockstep::comm {
namespace {

using std::chrono::seconds;

const CommunicatorOptions options{.timeout = seconds(20)};

class RingTransport final : public Transport {
 public:
  // `calls_left`: all-reduces of all ranks together until each further one fails.
  RingTransport(std::unique_ptr<Communicator> ring, std::atomic<int>& calls_left)
      : ring_(std::move(ring)), calls_left_(calls_left) {}

  int rank() const override { return ring_->rank(); }
  int size() const override { return ring_->size(); }
  std::string_view backend() const override { return "double"; }

  void exchange(std::span<Signature>, device::Deadline, const LookAround&) override {
    ring_->barrier(*stream_).wait();
  }
  void all_reduce(const Range& data, ReduceOp op, device::Deadline) override {
    if (calls_left_.fetch_sub(1) <= 0)
      throw TransportError(TransportError::Kind::lost, 1 - rank(), "the connection broke");
    call([&] { return ring_->all_reduce(data, op, *stream_); });
  }
  void reduce(const Range& data, ReduceOp op, int root, device::Deadline) override {
    call([&] { return ring_->reduce(data, op, root, *stream_); });
  }
  void reduce_scatter(const Range& data, ReduceOp op, device::Deadline) override {
    call([&] { return ring_->reduce_scatter(data, op, *stream_); });
  }
  void all_gather(const Range& data, device::Deadline) override {
    call([&] { return ring_->all_gather(data, *stream_); });
  }
  void broadcast(const Range& data, int root, device::Deadline) override {
    call([&] { return ring_->broadcast(data, root, *stream_); });
  }
  void all_to_all(const Range& send, const Range& receive, device::Deadline) override {
    call([&] { return ring_->all_to_all(send, receive, *stream_); });
  }
  std::unique_ptr<Transport> split(std::span<const int> members, Store&, const std::string&,
                                   device::Deadline) override {
    const int color = members.empty() ? -1 : members.front();
    auto part = ring_->split(color, rank());
    return part ? std::make_unique<RingTransport>(std::move(part), calls_left_) : nullptr;
  }
  void end_waits() noexcept override { ring_->abort(-1, "told to stop"); }

 private:
  template <class Call>
  void call(Call&& collective) {
    try {
      collective().wait();
    } catch (const RankError& error) {
      throw TransportError(TransportError::Kind::lost, error.rank(), error.what());
    }
  }

  std::unique_ptr<Communicator> ring_;
  std::atomic<int>& calls_left_;
  std::unique_ptr<Stream> stream_ = device::make_inline_stream();
};

// Runs `body` on a thread for each rank; `hosts` says where each is.
void run(const std::vector<std::string>& hosts, std::atomic<int>& calls_left,
         const std::function<void(Transport&)>& body) {
  const auto store = make_memory_store();
  const HostMap map(hosts);
  ThreadGroups groups;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank)
    threads.emplace_back([&, rank] {
      const int host = map.host_of(rank);
      const int mates = static_cast<int>(map.ranks_of(host).size());
      auto world = make_ring_communicator(
          groups.take("world", rank, static_cast<int>(hosts.size())), options);
      auto inside = make_ring_communicator(
          groups.take("host" + std::to_string(host), map.place_of(rank), mates), options);
      HierarchicalTransport transport(std::make_unique<RingTransport>(std::move(world), calls_left),
                                      std::move(inside), map, *store, "p",
                                      device::Clock::now() + seconds(20));
      body(transport);
    });
  for (std::thread& thread : threads) thread.join();
}

constexpr std::size_t pieces = 5;
constexpr std::size_t elements = (pieces << 18) + 17;  // floats: so many pieces, and some more

void expect_sums(const std::vector<std::string>& hosts) {
  std::atomic<int> calls_left = 1 << 30;
  const auto ranks = static_cast<float>(hosts.size());
  run(hosts, calls_left, [&](Transport& transport) {
    EXPECT_EQ(transport.backend(), "ring+double");
    std::vector<float> data(elements);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < elements; ++i)
        data[i] = static_cast<float>(transport.rank() + static_cast<int>(i % 100));
      transport.all_reduce(range_of(std::span(data)), ReduceOp::sum,
                           device::Clock::now() + seconds(20));
      for (std::size_t i = 0; i < elements; ++i) {
        const float expected = ranks * (ranks - 1) / 2 + ranks * static_cast<float>(i % 100);
        if (data[i] == expected) continue;
        ADD_FAILURE() << "element " << i << ": " << data[i] << ", expected " << expected;
        break;
      }
    }
  });
}

TEST(HierarchicalTransport, AddsInPieces) {
  expect_sums({"a", "a", "b", "b"});
}

TEST(HierarchicalTransport, AddsOverHostsOfUnequalSize) {
  expect_sums({"a", "b", "a", "c", "a"});
}

TEST(HierarchicalTransport, AFailureBetweenHostsEndsTheCallOnEveryRank) {
  std::atomic<int> calls_left = 6;  // of the two lanes: both fail in the midst of their pieces
  run({"a", "a", "b", "b"}, calls_left, [](Transport& transport) {
    std::vector<float> data(elements);
    try {
      transport.all_reduce(range_of(std::span(data)), ReduceOp::sum,
                           device::Clock::now() + seconds(20));
      ADD_FAILURE() << "it did not fail";
    } catch (const TransportError& error) {
      EXPECT_EQ(error.kind(), TransportError::Kind::lost);
    }
    transport.end_waits();  // as whoever hears of it does
  });
}

}  // namespace
}  // namespace lockstep::comm
