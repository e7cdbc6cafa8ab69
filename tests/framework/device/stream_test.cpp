#include "framework/device/stream.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "framework/device/cpu/cpu_context.h"

namespace lockstep::device {
namespace {

using namespace std::chrono_literals;

// A task that runs until it is told to stop.
class Gate {
 public:
  void open() { open_.store(true); }
  auto task() {
    return [this] {
      while (!open_.load()) std::this_thread::sleep_for(100us);
    };
  }

 private:
  std::atomic<bool> open_{false};
};

TEST(Event, DefaultIsDone) {
  const Event event;
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(event.wait_until(Clock::now() - 1s));
  event.wait();
}

TEST(InlineStream, RunsWithinEnqueue) {
  const auto stream = make_inline_stream();
  EXPECT_TRUE(stream->is_inline());
  std::thread::id where;
  stream->enqueue([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_TRUE(stream->record().done());
  stream->synchronize();
}

TEST(InlineStream, WaitsOnTheHost) {
  const auto stream = make_inline_stream();
  const auto other = make_thread_stream("other");
  int value = 0;  // not atomic: the event orders the accesses
  other->enqueue([&] {
    std::this_thread::sleep_for(5ms);
    value = 1;
  });
  stream->wait(other->record());
  EXPECT_EQ(value, 1);
}

TEST(ThreadStream, RunsInOrderOnItsOwnThread) {
  const auto stream = make_thread_stream("order");
  EXPECT_FALSE(stream->is_inline());
  std::vector<int> order;
  std::thread::id where;
  for (int i = 0; i < 1000; ++i) {
    stream->enqueue([&order, i] { order.push_back(i); });
  }
  stream->enqueue([&] { where = std::this_thread::get_id(); });
  stream->synchronize();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_NE(where, std::thread::id());
}

TEST(ThreadStream, EnqueueDoesNotWait) {
  Gate gate;
  const auto stream = make_thread_stream("busy");
  stream->enqueue(gate.task());
  const Event event = stream->record();
  EXPECT_FALSE(event.done());
  gate.open();
  event.wait();
  EXPECT_TRUE(event.done());
}

TEST(ThreadStream, WaitEndsAtTheDeadline) {
  Gate gate;
  const auto stream = make_thread_stream("busy");
  stream->enqueue(gate.task());
  const Event event = stream->record();
  const Deadline deadline = Clock::now() + 20ms;
  EXPECT_FALSE(event.wait_until(deadline));
  EXPECT_GE(Clock::now(), deadline);
  EXPECT_FALSE(event.wait_until(Clock::now() - 1s));
  gate.open();
  EXPECT_TRUE(event.wait_until(Clock::now() + 60s));
}

// An event stands for the work before it, not for what came later.
TEST(ThreadStream, EventIsAPoint) {
  Gate gate;
  const auto stream = make_thread_stream("point");
  EXPECT_TRUE(stream->record().done());
  std::atomic<bool> ran{false};
  stream->enqueue([&] { ran = true; });
  const Event before = stream->record();
  stream->enqueue(gate.task());
  const Event after = stream->record();
  before.wait();
  EXPECT_TRUE(ran);
  EXPECT_FALSE(after.done());
  gate.open();
  after.wait();
}

TEST(ThreadStream, WaitOrdersStreamsWithoutHoldingTheHost) {
  Gate gate;
  const auto first = make_thread_stream("first");
  const auto second = make_thread_stream("second");
  int value = 0;
  int seen = -1;
  first->enqueue(gate.task());
  first->enqueue([&] { value = 1; });
  second->wait(first->record());
  second->enqueue([&] { seen = value; });
  EXPECT_FALSE(second->record().done());
  gate.open();
  second->synchronize();
  EXPECT_EQ(seen, 1);
}

TEST(ThreadStream, MayWaitForItself) {
  const auto stream = make_thread_stream("self");
  stream->enqueue([] { std::this_thread::sleep_for(1ms); });
  stream->wait(stream->record());
  stream->synchronize();
}

TEST(ThreadStream, DestructorFinishesTheWork) {
  std::vector<int> done;
  Event event;
  {
    const auto stream = make_thread_stream("short-lived");
    stream->enqueue([] { std::this_thread::sleep_for(2ms); });
    for (int i = 0; i < 100; ++i) stream->enqueue([&done, i] { done.push_back(i); });
    event = stream->record();
  }
  EXPECT_EQ(done.size(), 100u);
  EXPECT_TRUE(event.done());  // an event may outlive its stream
  event.wait();
}

// What a task holds is gone when its event is done: a buffer is back at its allocator.
TEST(ThreadStream, TasksAreReleasedBeforeTheyCountAsDone) {
  const auto stream = make_thread_stream("release");
  for (int i = 0; i < 200; ++i) {
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = held;
    stream->enqueue([held = std::move(held)] {});
    stream->synchronize();
    ASSERT_TRUE(watch.expired());
  }
}

TEST(ThreadStream, ThreadCarriesTheName) {
  const auto stream = make_thread_stream("communication of rank 3");
  char name[16] = {};
  // The name is set by the stream's constructor, before the first task is enqueued.
  stream->enqueue([&] { pthread_getname_np(pthread_self(), name, sizeof name); });
  stream->synchronize();
  EXPECT_STREQ(name, "communication o");
}

TEST(ThreadStream, ManyThreadsWaitForOneEvent) {
  Gate gate;
  const auto stream = make_thread_stream("shared");
  int value = 0;
  stream->enqueue(gate.task());
  stream->enqueue([&] { value = 7; });
  const Event event = stream->record();
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([event, &value] {
      event.wait();
      EXPECT_EQ(value, 7);
    });
  }
  gate.open();
  for (std::thread& waiter : waiters) waiter.join();
}

// Random work over several streams, ordered by nothing but events: each task adds to a plain
// counter that the next one reads. A missing edge is a wrong value, and a race to ThreadSanitizer.
TEST(ThreadStream, RandomChainsAcrossStreams) {
  std::mt19937 random(11);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(make_thread_stream("chain " + std::to_string(i)));
  streams.push_back(make_inline_stream());
  int counter = 0;
  Event last;
  constexpr int tasks = 400;
  for (int i = 0; i < tasks; ++i) {
    Stream& stream = *streams[random() % streams.size()];
    const bool pause = random() % 16 == 0;
    stream.wait(last);
    stream.enqueue([&counter, i, pause] {
      if (pause) std::this_thread::sleep_for(200us);
      EXPECT_EQ(counter, i);
      ++counter;
    });
    last = stream.record();
  }
  last.wait();
  EXPECT_EQ(counter, tasks);
}

}  // namespace
}  // namespace lockstep::device
