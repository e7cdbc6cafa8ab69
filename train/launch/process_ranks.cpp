// Ranks that are processes: this program, forked and started again.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "comm/store/store.h"
#include "framework/base/error.h"
#include "train/exit_code.h"
#include "train/launch/control_channel.h"
#include "train/launch/ranks.h"
#include "train/launch/worker_command.h"

namespace lockstep::train {
namespace {

StartupError failed_to(const std::string& what) {
  return StartupError(fmt::format("cannot {}: {}", what, std::strerror(errno)));
}

std::string random_secret() {
  std::array<std::uint64_t, 2> words{};
  if (::getrandom(words.data(), sizeof words, 0) != sizeof words) throw failed_to("draw a secret");
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

// A worker's connection to the store: what the server takes, and the worker's end.
std::pair<int, int> make_store_sockets() {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    throw failed_to("make a socket for a worker");
  }
  return {sockets[0], sockets[1]};
}

class ProcessRanks final : public Ranks {
 public:
  ProcessRanks(const LaunchOptions& options, Scoreboard& scoreboard, const Log& log)
      : scoreboard_(scoreboard),
        store_([log](const std::string& warning) { log.warning("{}", warning); }) {
    open_store(options);
  }
  ~ProcessRanks() override {
    kill();
    for (const Process& process : processes_) {
      if (process.alive) ::waitpid(process.pid, nullptr, 0);
    }
  }

  void start(int rank);

  std::vector<pollfd> sources() const override;
  Happenings collect() override;
  bool is_alive(int rank) const override { return at(rank).alive; }
  void abort(int rank, int guilty, const std::string& cause) override {
    at(rank).control.send({.kind = Message::Kind::abort, .rank = guilty, .text = cause});
  }
  bool kill() override;

 private:
  struct Process {
    pid_t pid = -1;
    ControlChannel control;
    bool alive = true;
    bool has_failed = false;  // and said why
  };

  const Process& at(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  void open_store(const LaunchOptions& options);
  void read_messages(int rank, Happenings& happenings);
  void reap(int rank, Happenings& happenings);

  Scoreboard& scoreboard_;
  comm::StoreServer store_;
  std::string endpoint_;  // "host port secret" where the store listens
  std::vector<Process> processes_;
  bool killed_ = false;
};

void ProcessRanks::open_store(const LaunchOptions& options) {
  const auto [server_end, client_end] = make_store_sockets();
  store_.serve(server_end);
  const auto client = comm::connect_store(client_end);
  for (const auto& [key, value] : options.settings) client->set(key, value);
  if (!options.listen) return;
  const std::string secret = random_secret();
  const int port = store_.listen(options.listen->host, options.listen->port, secret);
  endpoint_ = fmt::format("{} {} {}", options.listen->host, port, secret);
}

// Between fork and exec: what is safe there, in a process that may have other threads.
[[noreturn]] void become_worker(pid_t launcher, const std::array<int, 3>& inherited,
                                char* const* arguments) {
  // The launcher's end, whatever its cause, is the worker's; the question covers an end before this
  // line.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(exit_rank_lost);
  for (const int descriptor : inherited) {
    if (descriptor >= 0) ::fcntl(descriptor, F_SETFD, 0);
  }
  // SIGINT and SIGTERM stay blocked until the worker has said what they mean to it.
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  ::sigprocmask(SIG_UNBLOCK, &children, nullptr);
  ::execv("/proc/self/exe", arguments);
  ::_exit(exit_startup);
}

void ProcessRanks::start(int rank) {
  auto [mine, workers] = ControlChannel::make_pair();
  comm::Descriptor store;
  if (endpoint_.empty()) {
    const auto [server_end, workers_end] = make_store_sockets();
    store_.serve(server_end);
    store = comm::Descriptor(workers_end);
  } else {
    mine.send({.kind = Message::Kind::store, .text = endpoint_});
  }
  const WorkerCommand command{.rank = rank,
                              .world_size = scoreboard_.ranks(),
                              .control = workers.descriptor(),
                              .scoreboard = scoreboard_.descriptor(),
                              .store = store.get()};
  std::vector<std::string> arguments = worker_arguments(program_invocation_name, command);
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw failed_to(fmt::format("start the worker of rank {}", rank));
  if (pid == 0) {
    become_worker(launcher, {command.control, command.scoreboard, command.store}, pointers.data());
  }
  processes_.push_back({.pid = pid, .control = std::move(mine)});
}

std::vector<pollfd> ProcessRanks::sources() const {
  std::vector<pollfd> sources;
  for (const Process& process : processes_) {
    if (process.control.descriptor() < 0) continue;
    sources.push_back({.fd = process.control.descriptor(), .events = POLLIN, .revents = 0});
  }
  return sources;
}

Happenings ProcessRanks::collect() {
  Happenings happenings;
  for (int rank = 0; rank < static_cast<int>(processes_.size()); ++rank) {
    // A death first: what the process said before it is in the channel by then.
    reap(rank, happenings);
    read_messages(rank, happenings);
  }
  return happenings;
}

void ProcessRanks::read_messages(int rank, Happenings& happenings) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  Message message;
  auto received = ControlChannel::Received::nothing;
  while (process.control.descriptor() >= 0 &&
         (received = process.control.receive(message)) == ControlChannel::Received::message) {
    if (message.kind == Message::Kind::terminate) happenings.asked_to_terminate = true;
    if (message.kind != Message::Kind::failure) continue;
    process.has_failed = true;
    happenings.failures.push_back({.rank = rank,
                                   .accused = message.rank,
                                   .exit_code = message.exit_code,
                                   .order = message.order,
                                   .step = scoreboard_.step(rank),
                                   .message = message.text});
  }
  if (received == ControlChannel::Received::closed) process.control.close();
}

void ProcessRanks::reap(int rank, Happenings& happenings) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  int status = 0;
  if (!process.alive || ::waitpid(process.pid, &status, WNOHANG) != process.pid) return;
  process.alive = false;
  read_messages(rank, happenings);
  const bool was_killed_here = killed_ && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  const bool ended_well = status == 0 && scoreboard_.is_done(rank);
  if (process.has_failed || was_killed_here || ended_well) return;
  happenings.failures.push_back({.rank = rank,
                                 .exit_code = exit_rank_lost,
                                 .order = scoreboard_.next_failure(),
                                 .step = scoreboard_.step(rank),
                                 .message = describe_death(status),
                                 .died = true});
}

bool ProcessRanks::kill() {
  killed_ = true;
  for (const Process& process : processes_) {
    if (process.alive) ::kill(process.pid, SIGKILL);
  }
  return true;
}

}  // namespace

std::unique_ptr<Ranks> start_processes(const LaunchOptions& options, Scoreboard& scoreboard,
                                       const Log& log) {
  auto ranks = std::make_unique<ProcessRanks>(options, scoreboard, log);
  for (int rank = 0; rank < options.workers; ++rank) ranks->start(rank);
  return ranks;
}

}  // namespace lockstep::train
