// The mpirun that holds the seats.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "comm/mpi/mpi_files.h"
#include "comm/mpi/seats.h"
#include "framework/base/error.h"
#include "framework/device/stream.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

constexpr const char* seat_program = "mpi_seat";
constexpr milliseconds end_grace{500};  // to end by itself
constexpr milliseconds term_grace{3000};

std::string random_name() {
  std::uint64_t words[2];
  if (::getrandom(words, sizeof words, 0) != static_cast<ssize_t>(sizeof words))
    throw StartupError(fmt::format("getrandom: {}", std::strerror(errno)));
  return fmt::format("{}{:016x}{:016x}", job_name_prefix, words[0], words[1]);
}

// What Open MPI has to be told for ranks that share one host, unless the user has said otherwise.
// Other implementations ignore it.
void set_open_mpi_options(const std::string& folder) {
  const auto set = [](const char* name, const char* value) { ::setenv(name, value, 0); };
  if (::geteuid() == 0) {
    set("OMPI_ALLOW_RUN_AS_ROOT", "1");
    set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  set("OMPI_MCA_rmaps_base_oversubscribe", "1");
  set("OMPI_MCA_hwloc_base_binding_policy", "none");
  // Without it each rank believes that it has a core of its own, and polls on while others wait for
  // that core: 8 ms instead of 20 us for a small all-reduce.
  set("OMPI_MCA_mpi_yield_when_idle", "1");
  // Nothing but this host, and no port that others can reach.
  set("OMPI_MCA_plm", "isolated");
  set("OMPI_MCA_oob_tcp_if_include", "lo");
  set("OMPI_MCA_btl", "self,vader");
  set("OMPI_MCA_orte_tmpdir_base", folder.c_str());
}

// An mpirun or srun that this process was started by is not the one that the seats belong to.
void unset_other_launchers() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name(*variable, std::strcspn(*variable, "="));
    for (const char* prefix : {"OMPI_COMM_WORLD_", "PMIX_", "PMI_", "SLURM_"})
      if (name.starts_with(prefix)) names.push_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

std::string last_words(const std::string& log_file) {
  std::ifstream file(log_file);
  std::ostringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  if (all.size() > 2000) all.erase(0, all.size() - 2000);
  return all;
}

struct MpirunCommand {
  int ranks;
  std::string seat_program, seats, log_file;
};

[[noreturn]] void become_mpirun(pid_t parent, const MpirunCommand& command,
                                const JobFolder& folder) {
  ::setpgid(0, 0);  // a Ctrl-C is for the ranks, which give their seats back when they end
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const char* const log = command.log_file.empty() ? "/dev/null" : command.log_file.c_str();
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(::open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666), STDOUT_FILENO);
  ::dup2(STDOUT_FILENO, STDERR_FILENO);
  ::fcntl(folder.guard(), F_SETFD, 0);  // the folder stays until mpirun has ended
  unset_other_launchers();
  set_open_mpi_options(folder.path());
  ::execlp("mpirun", "mpirun", "-n", std::to_string(command.ranks).c_str(),
           command.seat_program.c_str(), command.seats.c_str(), static_cast<char*>(nullptr));
  ::_exit(127);
}

}  // namespace

bool has_mpirun() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return true;
  return false;
}

SeatLender::SeatLender(const std::string& seats, int rank, milliseconds timeout) {
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw StartupError(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (pid_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  try {
    ::_exit(lend_seat(seats, rank, timeout) ? 0 : 1);
  } catch (const std::exception&) {
    ::_exit(1);  // the rank will miss its seat and say so
  }
}

SeatLender::~SeatLender() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

MpiJob::MpiJob(int ranks, const std::string& log_file, milliseconds start_timeout)
    : seats_(random_name()) {
  const std::optional<std::string> program = find_mpi_file(seat_program);
  if (!program) throw StartupError("backend mpi: the program mpi_seat is not installed");
  if (!has_mpirun())
    throw StartupError("backend mpi: there is no mpirun in PATH to start the ranks with");
  folder_.emplace(seats_);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw StartupError(fmt::format("cannot start mpirun: {}", std::strerror(errno)));
  if (pid_ == 0) become_mpirun(parent, {ranks, *program, seats_, log_file}, *folder_);
  ::setpgid(pid_, pid_);
  try {
    wait_for_seats(ranks, log_file, start_timeout);
  } catch (...) {
    end();
    throw;
  }
}

MpiJob::~MpiJob() {
  end();
}

void MpiJob::wait_for_seats(int ranks, const std::string& log_file, milliseconds start_timeout) {
  const auto deadline = device::Clock::now() + start_timeout;
  for (int rank = 0; rank < ranks;) {
    if (seat_is_offered(seats_, rank)) {
      ++rank;
      continue;
    }
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      throw StartupError(fmt::format("backend mpi: mpirun ended before all ranks had a seat:\n{}",
                                     last_words(log_file)));
    }
    if (device::Clock::now() >= deadline)
      throw StartupError(
          fmt::format("backend mpi: mpirun offered no seat for rank {} within {:.1f} s", rank,
                      std::chrono::duration<double>(start_timeout).count()));
    std::this_thread::sleep_for(milliseconds(5));
  }
}

// mpirun ends by itself when the ranks have given their seats back. Otherwise it is asked to, and
// killed if that does not help; the processes that it started end with it.
void MpiJob::end() noexcept {
  if (pid_ < 0) return;
  const auto start = device::Clock::now();
  int signal = 0;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    const auto waited = device::Clock::now() - start;
    if (signal == 0 && waited > end_grace) ::kill(pid_, signal = SIGTERM);
    if (signal == SIGTERM && waited > end_grace + term_grace) ::kill(pid_, signal = SIGKILL);
    std::this_thread::sleep_for(milliseconds(5));
  }
  pid_ = -1;
}

}  // namespace lockstep::comm
