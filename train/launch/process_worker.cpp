// A rank that is a process of its own: what start_processes() started.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <thread>

#include "framework/base/error.h"
#include "train/exit_code.h"
#include "train/launch/control_channel.h"
#include "train/launch/launched_worker.h"
#include "train/launch/signals.h"
#include "train/launch/worker_command.h"

namespace lockstep::train {
namespace {

constexpr std::chrono::seconds connect_timeout{10};  // to a store that is listening already

// SIGINT from the terminal reaches the whole process group; the launcher tells the ranks when to
// stop. SIGTERM, which may be sent to a worker alone, is passed on to the launcher.
comm::Descriptor take_over_signals() {
  ::signal(SIGINT, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  return open_signals(signals);
}

std::shared_ptr<comm::Store> open_store(const WorkerCommand& command,
                                        const ControlChannel& control) {
  if (command.store >= 0) return comm::connect_store(command.store);
  Message message;
  if (control.receive(message) != ControlChannel::Received::message ||
      message.kind != Message::Kind::store) {
    throw StartupError("the launcher did not say where its store listens");
  }
  std::istringstream fields(message.text);
  std::string host;
  std::string secret;
  int port = 0;
  fields >> host >> port >> secret;
  return comm::connect_store(host, port, secret, connect_timeout);
}

class ProcessWorker final : public LaunchedWorker {
 public:
  ProcessWorker(const WorkerCommand& command, Scoreboard& scoreboard)
      : LaunchedWorker(command.rank, scoreboard),
        control_(comm::Descriptor(command.control)),
        signals_(take_over_signals()),
        store_(open_store(command, control_)),
        stop_monitor_(::eventfd(0, EFD_CLOEXEC)),
        monitor_([this] { watch(); }) {}

  ~ProcessWorker() override {
    const std::uint64_t one = 1;
    if (::write(stop_monitor_.get(), &one, sizeof one) != sizeof one) std::abort();
    monitor_.join();
  }

  comm::Store& store() override { return *store_; }

  using LaunchedWorker::join;
  std::unique_ptr<comm::Group> join(const std::string& name, int rank, int size,
                                    std::chrono::milliseconds start_timeout) override {
    return comm::make_process_group(*store_, "launch/" + name, rank, size, start_timeout);
  }

 private:
  void send(const Failure& failure) override {
    control_.send({.kind = Message::Kind::failure,
                   .rank = failure.accused,
                   .exit_code = failure.exit_code,
                   .order = failure.order,
                   .text = failure.message});
  }

  // The monitor thread: hears the launcher while the rank's own threads compute or wait.
  void watch() {
    ::prctl(PR_SET_NAME, "monitor");
    while (true) {
      std::array<pollfd, 3> sources = {pollfd{control_.descriptor(), POLLIN, 0},
                                       pollfd{signals_.get(), POLLIN, 0},
                                       pollfd{stop_monitor_.get(), POLLIN, 0}};
      ::poll(sources.data(), sources.size(), -1);
      if (sources[2].revents != 0) return;
      while (read_signal(signals_) != 0) control_.send({.kind = Message::Kind::terminate});
      listen();
    }
  }

  void listen() {
    Message message;
    auto received = ControlChannel::Received::nothing;
    while ((received = control_.receive(message)) == ControlChannel::Received::message) {
      if (message.kind == Message::Kind::abort) abort(message.rank, message.text);
    }
    // Without its launcher a rank must not go on, whatever its other threads are doing.
    if (received == ControlChannel::Received::closed) ::_exit(exit_rank_lost);
  }

  ControlChannel control_;
  comm::Descriptor signals_;
  std::shared_ptr<comm::Store> store_;
  comm::Descriptor stop_monitor_;
  std::thread monitor_;
};

void protect_descriptors(const WorkerCommand& command) {
  for (const int descriptor : {command.control, command.scoreboard, command.store}) {
    if (descriptor >= 0 && ::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) {
      throw StartupError(fmt::format("descriptor {} of the launcher is not there", descriptor));
    }
  }
}

}  // namespace

std::optional<int> run_if_worker(int argc, char** argv, const Body& body) {
  try {
    const std::optional<WorkerCommand> command = parse_worker_command(argc, argv);
    if (!command) return std::nullopt;
    protect_descriptors(*command);
    ::prctl(PR_SET_NAME, fmt::format("rank {}", command->rank).c_str());
    Scoreboard scoreboard =
        Scoreboard::map_shared(comm::Descriptor(command->scoreboard), command->world_size);
    ProcessWorker worker(*command, scoreboard);
    return worker.run(body);
  } catch (const std::exception& error) {
    // The launcher is not reached yet, or this is not its worker.
    std::fprintf(stderr, "error: %s\n", error.what());
    return exit_code_of(error);
  }
}

}  // namespace lockstep::train
