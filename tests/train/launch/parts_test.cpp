// The parts of the launcher, one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "framework/base/error.h"
#include "train/launch/control_channel.h"
#include "train/launch/failure.h"
#include "train/launch/scoreboard.h"
#include "train/launch/worker_command.h"

namespace lockstep::train {
namespace {

Failure accusation(int rank, int accused, std::int64_t order) {
  return {.rank = rank, .accused = accused, .exit_code = 6, .order = order};
}
Failure own(int rank, std::int64_t order) {
  return {.rank = rank, .exit_code = 3, .order = order};
}

TEST(FirstCause, IsTheEarliest) {
  const std::vector<Failure> failures = {own(2, 5), own(1, 3), own(0, 4)};
  EXPECT_EQ(first_cause(failures).rank, 1);
}

TEST(FirstCause, FollowsAccusations) {
  const std::vector<Failure> failures = {accusation(0, 1, 0), own(3, 1), accusation(1, 2, 2),
                                         own(2, 9)};
  EXPECT_EQ(first_cause(failures).rank, 2);
}

TEST(FirstCause, StaysWithTheAccuserOfARankThatSaidNothing) {
  EXPECT_EQ(first_cause({accusation(0, 4, 0), own(3, 1)}).rank, 0);
}

TEST(FirstCause, EndsInACircle) {
  EXPECT_EQ(first_cause({accusation(0, 1, 0), accusation(1, 0, 1)}).rank, 1);
}

TEST(FailureOf, KnowsWhoIsAccused) {
  EXPECT_EQ(failure_of(2, RankError(1, "late")).accused, 1);
  EXPECT_EQ(failure_of(2, RankError(2, "late")).accused, Failure::nobody);
  EXPECT_EQ(failure_of(2, RankError(-1, "late")).accused, Failure::nobody);
  EXPECT_EQ(failure_of(2, DataError("bad")).exit_code, 3);
  EXPECT_EQ(failure_of(2, std::bad_alloc()).exit_code, 5);
}

TEST(Failure, IsDescribedInAWholeSentence) {
  EXPECT_EQ(describe({.rank = 2, .step = 7, .message = "row 7 is damaged"}),
            "rank 2 in step 7: row 7 is damaged");
  EXPECT_EQ(describe({.rank = 2, .message = "no memory"}),
            "rank 2 before its first step: no memory");
  EXPECT_EQ(describe({.rank = 3, .step = 57, .message = describe_death(SIGSEGV), .died = true}),
            "rank 3 was killed by signal 11 (SIGSEGV) in step 57");
}

TEST(ControlChannel, CarriesMessagesWhole) {
  auto [one, other] = ControlChannel::make_pair();
  one.send({.kind = Message::Kind::failure, .rank = 3, .exit_code = 4, .order = 5, .text = "a\nb"});
  one.send({.kind = Message::Kind::terminate});
  one.send({.kind = Message::Kind::abort, .text = std::string(1 << 20, 'x')});
  Message message;
  ASSERT_EQ(other.receive(message), ControlChannel::Received::message);
  EXPECT_EQ(message.kind, Message::Kind::failure);
  EXPECT_EQ(message.rank, 3);
  EXPECT_EQ(message.exit_code, 4);
  EXPECT_EQ(message.order, 5);
  EXPECT_EQ(message.text, "a\nb");
  ASSERT_EQ(other.receive(message), ControlChannel::Received::message);
  EXPECT_EQ(message.kind, Message::Kind::terminate);
  EXPECT_EQ(message.text, "");
  ASSERT_EQ(other.receive(message), ControlChannel::Received::message);
  EXPECT_GT(message.text.size(), 10'000u);
  EXPECT_EQ(other.receive(message), ControlChannel::Received::nothing);
  one.send({.kind = Message::Kind::abort, .text = "last words"});
  one.close();
  ASSERT_EQ(other.receive(message), ControlChannel::Received::message);
  EXPECT_EQ(message.text, "last words");
  EXPECT_EQ(other.receive(message), ControlChannel::Received::closed);
  other.send({});  // nobody is there: no signal, no error
}

TEST(Scoreboard, IsSharedThroughItsDescriptor) {
  Scoreboard mine = Scoreboard::make_shared(3);
  Scoreboard theirs = Scoreboard::map_shared(comm::Descriptor(::dup(mine.descriptor())), 3);
  EXPECT_EQ(theirs.ranks(), 3);
  EXPECT_EQ(theirs.step(2), 0);
  EXPECT_FALSE(theirs.is_done(1));
  EXPECT_EQ(theirs.stop_signal(), 0);
  mine.set_step(2, 99);
  mine.set_done(1);
  mine.ask_to_stop(SIGINT);
  EXPECT_EQ(theirs.step(2), 99);
  EXPECT_EQ(theirs.step(1), 0);
  EXPECT_TRUE(theirs.is_done(1));
  EXPECT_FALSE(theirs.is_done(2));
  EXPECT_EQ(theirs.stop_signal(), SIGINT);
  EXPECT_EQ(mine.next_failure(), 0);
  EXPECT_EQ(theirs.next_failure(), 1);
}

TEST(WorkerCommand, ReadsWhatItWrites) {
  const WorkerCommand command{
      .rank = 3, .world_size = 8, .control = 11, .scoreboard = 12, .store = -1};
  std::vector<std::string> words = worker_arguments("train", command);
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (std::string& word : words) argv.push_back(word.data());
  const auto parsed = parse_worker_command(static_cast<int>(argv.size()), argv.data());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->rank, 3);
  EXPECT_EQ(parsed->world_size, 8);
  EXPECT_EQ(parsed->control, 11);
  EXPECT_EQ(parsed->scoreboard, 12);
  EXPECT_EQ(parsed->store, -1);
}

TEST(WorkerCommand, IsNotWhatAUserWrites) {
  std::vector<std::string> words = {"train", "--config", "mlp.yaml"};
  std::vector<char*> argv = {words[0].data(), words[1].data(), words[2].data()};
  EXPECT_FALSE(parse_worker_command(3, argv.data()));
  EXPECT_FALSE(parse_worker_command(1, argv.data()));
  words[1] = "__worker";
  EXPECT_THROW(parse_worker_command(3, argv.data()), ConfigError);
}

}  // namespace
}  // namespace lockstep::train
