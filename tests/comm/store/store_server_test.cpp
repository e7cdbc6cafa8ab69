// The server among strangers, and what happens when a side goes away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "comm/store/descriptor.h"
#include "comm/store/protocol.h"
#include "comm/store/socket.h"
#include "comm/store/store.h"
#include "framework/base/error.h"
#include "tests/support/port.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class StoreServerTest : public ::testing::Test {
 protected:
  Descriptor stranger() {
    return connect_tcp("127.0.0.1", port_, std::chrono::steady_clock::now() + 5s);
  }

  static void say(const Descriptor& socket, std::string_view text) {
    // A connection that was closed meanwhile is an error here, and as good.
    (void)send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  // Whether the server closes the connection within `limit`.
  static bool is_closed(const Descriptor& socket, std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    char byte;
    while (wait_for(socket.get(), POLLIN, deadline))
      if (recv(socket.get(), &byte, 1, MSG_DONTWAIT) <= 0) return true;
    return false;
  }

  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

  std::mutex mutex_;
  std::vector<std::string> warnings_;
  StoreServer server_{[this](const std::string& warning) {
    const std::lock_guard lock(mutex_);
    warnings_.push_back(warning);
  }};
  int port_ = server_.listen("127.0.0.1", 0, "secret");
};

TEST_F(StoreServerTest, DropsStrangersAtOnceWithOneWarningEach) {
  std::mt19937 random(1);
  std::string noise(4096, '\0');
  for (char& c : noise) c = static_cast<char>(random() | 0x80);  // announces a huge message
  const std::string greeting = MessageWriter::request(Request::greet, 0)
                                   .put(greeting_magic)
                                   .put(std::string_view("secreT"))
                                   .frame();
  const std::string no_greeting = MessageWriter::request(Request::set, 0)
                                      .put(std::string_view("key"))
                                      .put(std::string_view("v"))
                                      .frame();
  const std::string trailing = MessageWriter::request(Request::greet, 0)
                                   .put(greeting_magic)
                                   .put(std::string_view("secret"))
                                   .put(std::uint32_t{0})
                                   .frame();
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), noise,
                                  greeting, no_greeting, trailing}) {
    const std::size_t before = warnings().size();
    const Descriptor socket = stranger();
    say(socket, text);
    EXPECT_TRUE(is_closed(socket, 1s)) << text.substr(0, 20);
    EXPECT_EQ(warnings().size(), before + 1);
    EXPECT_THAT(warnings().back(), HasSubstr("127.0.0.1 port "));
  }
  const auto store = connect_store("127.0.0.1", port_, "secret", 5s);
  EXPECT_FALSE(store->has({"key"}).front());
}

TEST_F(StoreServerTest, NobodyWaitsForTheSilent) {
  const std::string greeting = MessageWriter::request(Request::greet, 0)
                                   .put(greeting_magic)
                                   .put(std::string_view("secret"))
                                   .frame();
  std::vector<Descriptor> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(stranger());
  for (std::size_t i = 0; i < 10; ++i) say(silent[i], greeting.substr(0, 3 + i));

  const auto start = std::chrono::steady_clock::now();
  const auto store = connect_store("127.0.0.1", port_, "secret", 5s);
  store->set("key", "value");
  EXPECT_EQ(store->get("key", 1s), "value");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);

  for (const Descriptor& socket : silent) EXPECT_TRUE(is_closed(socket, 10s));
  EXPECT_EQ(warnings().size(), silent.size());
  EXPECT_EQ(store->get("key", 1s), "value") << "a client that has greeted stays";
}

TEST_F(StoreServerTest, ManyStrangersPushOutEachOther) {
  const auto store = connect_store("127.0.0.1", port_, "secret", 5s);
  std::vector<Descriptor> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(stranger());
  EXPECT_TRUE(is_closed(silent.front(), 1s));
  store->set("key", "value");
  EXPECT_EQ(connect_store("127.0.0.1", port_, "secret", 5s)->get("key", 1s), "value");
}

TEST_F(StoreServerTest, RefusesAWrongSecret) {
  for (const std::string secret : {"", "secre", "secret!", "SECRET"})
    EXPECT_THAT([&] { connect_store("127.0.0.1", port_, secret, 5s); },
                ThrowsMessage<StartupError>(
                    AllOf(HasSubstr("127.0.0.1 port"), HasSubstr("took no greeting"))));
}

TEST_F(StoreServerTest, NamesThePortThatIsTaken) {
  StoreServer second;
  EXPECT_THAT(
      [&] { second.listen("127.0.0.1", port_, "secret"); },
      ThrowsMessage<StartupError>(AllOf(HasSubstr(std::to_string(port_)), HasSubstr("in use"))));
}

TEST_F(StoreServerTest, ClientWaitsForAServerThatStartsLater) {
  const int port = tests::free_port();
  std::unique_ptr<StoreServer> late;
  std::thread starter([&] {
    std::this_thread::sleep_for(100ms);
    late = std::make_unique<StoreServer>();
    late->listen("127.0.0.1", port, "secret");
  });
  EXPECT_NO_THROW(connect_store("127.0.0.1", port, "secret", 10s)->set("key", "value"));
  starter.join();
}

TEST_F(StoreServerTest, ClientGivesUpNamingThePort) {
  const int port = tests::free_port();
  EXPECT_THAT([&] { connect_store("127.0.0.1", port, "secret", 100ms); },
              ThrowsMessage<StartupError>(HasSubstr(std::to_string(port))));
  // Somebody listens and never answers.
  const Descriptor mute = listen_tcp("127.0.0.1", 0);
  EXPECT_THAT([&] { connect_store("127.0.0.1", local_port(mute), "secret", 100ms); },
              ThrowsMessage<StartupError>(HasSubstr("does not answer")));
}

TEST_F(StoreServerTest, UnknownHostIsAnError) {
  EXPECT_THROW(connect_store("no.such.host.invalid", 1, "secret", 100ms), StartupError);
  EXPECT_THROW(server_.listen("203.0.113.7", 0, "secret"), StartupError);  // not of this machine
}

TEST_F(StoreServerTest, ClientSaysThatTheServerIsGone) {
  auto server = std::make_unique<StoreServer>();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  server->serve(ends[0]);
  const auto store = connect_store(ends[1]);
  std::thread waiting([&] {
    EXPECT_THAT([&] { store->get("never", 60s); },
                ThrowsMessage<StartupError>(HasSubstr("is gone")));
  });
  std::this_thread::sleep_for(20ms);
  server.reset();
  waiting.join();
  EXPECT_THROW(store->set("key", "value"), StartupError);
}

TEST_F(StoreServerTest, RefusesOversizedRequests) {
  const auto store = connect_store("127.0.0.1", port_, "secret", 5s);
  EXPECT_THROW(store->set("key", std::string(max_store_message, 'x')), UsageError);
  store->set("key", "small");
  EXPECT_EQ(store->get("key", 1s), "small");
  EXPECT_THROW(server_.listen("127.0.0.1", 0, std::string(max_secret + 1, 's')), UsageError);
}

// A client that breaks the protocol after its greeting is dropped like a stranger; nobody else
// notices.
TEST_F(StoreServerTest, DropsAClientThatSendsNonsense) {
  const auto store = connect_store("127.0.0.1", port_, "secret", 5s);
  const Descriptor broken = stranger();
  say(broken, MessageWriter::request(Request::greet, 0)
                  .put(greeting_magic)
                  .put(std::string_view("secret"))
                  .frame());
  say(broken, MessageWriter::request(static_cast<Request>(77), 1).frame());
  EXPECT_TRUE(is_closed(broken, 1s));
  EXPECT_EQ(warnings().size(), 1u);
  store->set("key", "value");
}

// Whatever arrives, in whatever pieces, the server lives on.
TEST_F(StoreServerTest, SurvivesRandomBytes) {
  std::mt19937 random(7);
  const std::string greeting = MessageWriter::request(Request::greet, 0)
                                   .put(greeting_magic)
                                   .put(std::string_view("secret"))
                                   .frame();
  for (int i = 0; i < 100; ++i) {
    const Descriptor socket = stranger();
    say(socket, greeting);
    // Short frames of random content: most are a known request with broken fields.
    for (int message = 0; message < 5; ++message) {
      std::string body(random() % 40, '\0');
      for (char& c : body) c = static_cast<char>(random() % 6);
      std::string frame(4, '\0');
      frame[0] = static_cast<char>(body.size());
      say(socket, frame + body);
    }
  }
  const auto store = connect_store("127.0.0.1", port_, "secret", 5s);
  store->set("still", "here");
  EXPECT_EQ(store->get("still", 1s), "here");
}

}  // namespace
}  // namespace lockstep::comm
