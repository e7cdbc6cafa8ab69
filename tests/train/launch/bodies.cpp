#include "tests/train/launch/bodies.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include "framework/base/error.h"
#include "train/exit_code.h"

namespace lockstep::train::testing {
namespace {

using namespace std::chrono_literals;

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

std::string setting(Worker& worker, const std::string& name) {
  return worker.store().get(name, 5s);
}
int number(Worker& worker, const std::string& name) {
  return std::stoi(setting(worker, name));
}
bool is_chosen(Worker& worker) {
  return worker.rank() == number(worker, "rank");
}

// A rank that has found the others and can wait for them as in a collective.
class Member {
 public:
  explicit Member(Worker& worker, std::chrono::milliseconds start_timeout = 20s)
      : group_(worker.join("team", start_timeout)),
        subscription_(worker.on_abort(
            [this](int rank, const std::string& cause) { group_->abort(rank, cause); })),
        memory_(group_->allocate(64, device::Clock::now() + 20s)) {}

  // Until the group is aborted or the time is over, when it accuses `suspect`.
  void wait_forever(int suspect = 0, std::chrono::milliseconds timeout = 60s) {
    auto& signal = *reinterpret_cast<comm::Signal*>(memory_->local().data());
    group_->wait(
        signal, [](std::uint32_t) { return false; }, device::Clock::now() + timeout,
        [&] { return RankError(suspect, fmt::format("rank {} did not arrive", suspect)); });
  }

 private:
  std::unique_ptr<comm::Group> group_;
  Worker::Subscription subscription_;
  std::shared_ptr<comm::SymmetricBuffer> memory_;
};

void finish(Worker& worker) {
  Member member(worker);
  worker.report_step(1);
  say(fmt::format("rank {} of {} found {}", worker.rank(), worker.world_size(),
                  setting(worker, "note")));
}

[[noreturn]] void throw_error(const std::string& kind) {
  if (kind == "config") throw ConfigError("no such thing");
  if (kind == "data") throw DataError("row 7 is damaged");
  if (kind == "checkpoint") throw CheckpointError("the disk is full");
  if (kind == "startup") throw StartupError("no memory");
  if (kind == "rank") throw RankError(-1, "ranks disagree");
  if (kind == "numeric") throw NumericError("the loss is NaN");
  throw std::logic_error("a bug");
}

// Rank `rank` throws `error` in step 7 while the others wait for it.
void raise(Worker& worker) {
  Member member(worker);
  worker.report_step(7);
  if (is_chosen(worker)) throw_error(setting(worker, "error"));
  member.wait_forever();
}

// Rank `rank` ends in step 57 without a word, as `way` says.
void die(Worker& worker) {
  Member member(worker);
  worker.report_step(57);
  if (is_chosen(worker)) {
    const std::string way = setting(worker, "way");
    if (way == "kill") ::kill(::getpid(), SIGKILL);
    if (way == "abort") std::abort();
    ::_exit(std::stoi(way));
  }
  member.wait_forever();
}

// Rank 0 accuses rank 1, which fails a moment later by itself.
void accuse(Worker& worker) {
  Member member(worker);
  worker.report_step(3);
  if (worker.rank() == 0) throw RankError(1, "rank 1 did not arrive");
  if (worker.rank() == 1) {
    std::this_thread::sleep_for(300ms);
    throw DataError("row 7 is damaged");
  }
  member.wait_forever();
}

// Rank 1 is stuck, the others notice.
void stall(Worker& worker) {
  Member member(worker);
  worker.report_step(3);
  if (worker.rank() == 1) std::this_thread::sleep_for(60s);
  member.wait_forever(1, 500ms);
}

// Rank `rank` does not come to the rendezvous.
void absent(Worker& worker) {
  if (is_chosen(worker)) std::this_thread::sleep_for(60s);
  Member member(worker, 1s);
}

// Steps until the user wants to stop.
void steps(Worker& worker) {
  Member member(worker);
  for (std::int64_t step = 1; !worker.stop_requested(); ++step) {
    worker.report_step(step);
    if (step == 3) say("ready");
    std::this_thread::sleep_for(5ms);
  }
}

// Never sees that the user wants to stop.
void deaf(Worker& worker) {
  Member member(worker);
  worker.report_step(1);
  say("ready");
  member.wait_forever();
}

// Waits for the others in vain.
void before_first_step(Worker& worker) {
  say("ready");
  if (worker.rank() == 0) std::this_thread::sleep_for(60s);
  Member member(worker, 60s);
}

// What this process would pass on to a program that it starts, besides the standard streams.
std::string inheritable_descriptors() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int flags = ::fcntl(std::stoi(entry.path().filename()), F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) found.push_back(entry.path().filename());
  }
  std::ranges::sort(found);
  return fmt::format("{}", fmt::join(found, " "));
}

// Fails if a worker has more of them than the launcher had at its start.
void descriptors(Worker& worker) {
  const std::string found = inheritable_descriptors();
  const std::string expected = setting(worker, "inherited");
  if (found != expected) throw Error(fmt::format("found {}, expected {}", found, expected));
}

const std::map<std::string, Body> bodies = {{"finish", finish},
                                            {"raise", raise},
                                            {"die", die},
                                            {"accuse", accuse},
                                            {"stall", stall},
                                            {"absent", absent},
                                            {"steps", steps},
                                            {"deaf", deaf},
                                            {"before_first_step", before_first_step},
                                            {"descriptors", descriptors}};

}  // namespace

void run_body(Worker& worker) {
  bodies.at(setting(worker, "body"))(worker);
}

int launch_bodies(int argc, char** argv) {
  ::fcntl(STDOUT_FILENO, F_SETFL,
          O_APPEND);  // or processes write over each other's lines in a file
  LaunchOptions options;
  options.settings["inherited"] = inheritable_descriptors();
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    options.settings[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  const auto given = [&](const char* name) { return options.settings.contains(name); };
  options.workers = std::stoi(options.settings.at("workers"));
  if (given("kind") && options.settings["kind"] == "threads") options.kind = LaunchKind::threads;
  if (given("port")) options.listen = Endpoint{"127.0.0.1", std::stoi(options.settings["port"])};
  if (given("stop_grace")) {
    options.stop_grace = std::chrono::milliseconds(std::stoi(options.settings["stop_grace"]));
  }
  options.log_folder = "logs";
  try {
    return launch(options, run_body, Log());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return exit_code_of(error);
  }
}

}  // namespace lockstep::train::testing
