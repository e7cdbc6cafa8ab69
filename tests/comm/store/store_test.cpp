// What every kind of store promises.
#include "comm/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

enum class Kind { memory, socketpair, tcp };

// A store and further clients of it.
class Stores {
 public:
  explicit Stores(Kind kind) : kind_(kind) {
    if (kind == Kind::memory) memory_ = make_memory_store();
    if (kind == Kind::tcp) port_ = server_.listen("127.0.0.1", 0, "secret");
  }

  std::shared_ptr<Store> client() {
    if (kind_ == Kind::memory) return memory_;
    if (kind_ == Kind::tcp) return connect_store("127.0.0.1", port_, "secret", 5s);
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    server_.serve(ends[0]);
    return connect_store(ends[1]);
  }

 private:
  Kind kind_;
  StoreServer server_;
  std::shared_ptr<Store> memory_;
  int port_ = 0;
};

class StoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  Stores stores_{GetParam()};
  std::shared_ptr<Store> store_ = stores_.client();
};

INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest,
                         ::testing::Values(Kind::memory, Kind::socketpair, Kind::tcp),
                         [](const auto& test) -> std::string {
                           switch (test.param) {
                             case Kind::memory:
                               return "Memory";
                             case Kind::socketpair:
                               return "Socketpair";
                             case Kind::tcp:
                               return "Tcp";
                           }
                           return "";
                         });

TEST_P(StoreTest, GivesWhatAnotherClientSet) {
  const auto other = stores_.client();
  const std::string binary("a\0b\xff", 4);
  store_->set("key", binary);
  store_->set("", "the empty key");
  store_->set("empty", "");
  EXPECT_EQ(other->get("key", 1s), binary);
  EXPECT_EQ(other->get("", 1s), "the empty key");
  EXPECT_EQ(other->get("empty", 1s), "");
}

TEST_P(StoreTest, TakesLargeValues) {
  const std::string large(3 << 20, 'x');
  store_->set("large", large);
  EXPECT_EQ(stores_.client()->get("large", 5s), large);
}

TEST_P(StoreTest, WritesKeysOnce) {
  store_->set("key", "first");
  EXPECT_THAT([&] { store_->set("key", "second"); },
              ThrowsMessage<UsageError>(HasSubstr("'key' is in the store already")));
  EXPECT_EQ(store_->get("key", 1s), "first");
}

TEST_P(StoreTest, GetWaitsForTheKey) {
  const auto other = stores_.client();
  std::thread writer([&] {
    std::this_thread::sleep_for(30ms);
    other->set("late", "here");
  });
  EXPECT_EQ(store_->get("late", 10s), "here");
  writer.join();
}

TEST_P(StoreTest, GetGivesUpNamingTheKey) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT([&] { store_->get("nowhere", 50ms); },
              ThrowsMessage<StartupError>(HasSubstr("'nowhere' did not appear")));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, 50ms);
  EXPECT_LT(waited, 5s);
  EXPECT_THROW(store_->get("nowhere", 0ms), StartupError);
  // The one who gave up gets nothing that was meant for it.
  store_->set("nowhere", "now");
  EXPECT_EQ(store_->get("nowhere", 0ms), "now");
}

TEST_P(StoreTest, TellsWhichKeysAreThere) {
  store_->set("a", "");
  store_->set("c", "");
  EXPECT_THAT(store_->has({"a", "b", "c"}), ElementsAre(true, false, true));
  EXPECT_TRUE(store_->has({}).empty());
}

TEST_P(StoreTest, CountersStartAtZeroAndAreApartFromKeys) {
  EXPECT_EQ(store_->add("n", 0), 0);
  EXPECT_EQ(store_->add("n", 5), 5);
  EXPECT_EQ(stores_.client()->add("n", -7), -2);
  EXPECT_THAT(store_->has({"n"}), ElementsAre(false));
  store_->set("n", "a key");
  EXPECT_EQ(store_->add("n", 1), -1);
}

// A get that waits must not hold up the call that ends its wait, though they share a connection.
TEST_P(StoreTest, ThreadsShareAClient) {
  constexpr int threads = 8;
  std::atomic<int> right{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < threads; ++rank)
    ranks.emplace_back([&, rank] {
      // A ring, started by the last one: every thread but that waits before it writes.
      if (rank + 1 < threads) {
        const std::string left = store_->get(std::to_string(rank + 1), 20s);
        if (left == std::to_string(10 * (rank + 1))) ++right;
      } else {
        std::this_thread::sleep_for(20ms);
      }
      store_->set(std::to_string(rank), std::to_string(10 * rank));
      store_->add("done", 1);
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(right, threads - 1);
  EXPECT_EQ(store_->add("done", 0), threads);
}

TEST_P(StoreTest, ManyClientsAtOnce) {
  constexpr int clients = 16;
  std::vector<std::shared_ptr<Store>> all;
  for (int i = 0; i < clients; ++i) all.push_back(stores_.client());
  std::vector<std::thread> ranks;
  std::atomic<int> right{0};
  for (int i = 0; i < clients; ++i)
    ranks.emplace_back([&, i] {
      Store& mine = *all[static_cast<std::size_t>(i)];
      for (int round = 0; round < 20; ++round) {
        mine.set(std::to_string(round) + "/" + std::to_string(i), "v");
        mine.add("rounds", 1);
        const std::string neighbour =
            std::to_string(round) + "/" + std::to_string((i + 1) % clients);
        if (mine.get(neighbour, 20s) == "v") ++right;
      }
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(right, clients * 20);
  EXPECT_EQ(store_->add("rounds", 0), clients * 20);
}

}  // namespace
}  // namespace lockstep::comm
