#include "tests/support/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace lockstep::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Process {
  pid_t pid = 0;
  char state = 0;
  pid_t parent = 0;
  pid_t group = 0;
};

// All processes there are.
std::vector<Process> processes() {
  std::vector<Process> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (!std::getline(file, text)) continue;  // it ended meanwhile
    Process process{.pid = std::stoi(name)};
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    fields >> process.state >> process.parent >> process.group;
    found.push_back(process);
  }
  return found;
}

bool descends_from(pid_t pid, pid_t ancestor, const std::vector<Process>& all) {
  while (pid > 1 && pid != ancestor) {
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.pid == pid; });
    if (at == all.end()) return false;
    pid = at->parent;
  }
  return pid == ancestor;
}

}  // namespace

Program::Program(const std::vector<std::string>& command, const ProgramOptions& options)
    : options_(options), output_(::memfd_create("output", MFD_CLOEXEC)), started_(Clock::now()) {
  std::vector<std::string> words = command;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // Several processes write to it, each at the end.
  ::fcntl(output_.get(), F_SETFL, O_APPEND);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::dup2(output_.get(), STDOUT_FILENO);
    ::dup2(output_.get(), STDERR_FILENO);
    for (const auto& [name, value] : options_.environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (options_.folder.empty() || ::chdir(options_.folder.c_str()) == 0)
      ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);  // whichever of the two comes first
}

Program::~Program() {
  ::kill(-pid_, SIGKILL);
  if (!ended_) ::waitpid(pid_, nullptr, 0);
}

void Program::signal(int signal) const {
  ::kill(pid_, signal);
}

void Program::signal_group(int signal) const {
  ::kill(-pid_, signal);
}

std::string Program::output() const {
  std::string text;
  char block[4096];
  for (off_t offset = 0;;) {
    const ssize_t size = ::pread(output_.get(), block, sizeof block, offset);
    if (size <= 0) return text;
    text.append(block, static_cast<std::size_t>(size));
    offset += size;
  }
}

void Program::wait_for_output(const std::string& text, int times) const {
  const auto deadline = Clock::now() + options_.longest_wait;
  while (Clock::now() < deadline) {
    const std::string all = output();
    int found = 0;
    for (auto at = all.find(text); at != all.npos; at = all.find(text, at + 1)) ++found;
    if (found >= times) return;
    std::this_thread::sleep_for(5ms);
  }
  throw std::runtime_error(
      fmt::format("'{}' was not said {} times, the output is:\n{}", text, times, output()));
}

pid_t Program::worker(int rank) const {
  const std::string wanted = fmt::format("rank={}", rank);
  const std::vector<Process> all = processes();
  for (const Process& process : all) {
    if (!descends_from(process.pid, pid_, all)) continue;
    std::ifstream file(fmt::format("/proc/{}/cmdline", process.pid));
    for (std::string word; std::getline(file, word, '\0');) {
      if (word == wanted && process.pid != pid_) return process.pid;
    }
  }
  throw std::runtime_error(fmt::format("rank {} has no process", rank));
}

Program::End Program::wait() {
  const auto deadline = Clock::now() + options_.longest_wait;
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) != pid_) {
    if (Clock::now() > deadline) {
      throw std::runtime_error("the program does not end, its output is:\n" + output());
    }
    std::this_thread::sleep_for(2ms);
  }
  ended_ = true;
  End end{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .seconds = std::chrono::duration<double>(Clock::now() - started_).count(),
          .output = output(),
          .last_line = {}};
  std::istringstream lines(end.output);
  for (std::string line; std::getline(lines, line);) end.last_line = line;
  return end;
}

std::vector<pid_t> Program::running() const {
  std::vector<pid_t> pids;
  for (const Process& process : processes())
    if (process.group == pid_ && process.state != 'Z' && process.state != 'X')
      pids.push_back(process.pid);
  return pids;
}

bool Program::is_gone(std::chrono::milliseconds timeout) const {
  const auto deadline = Clock::now() + timeout;
  while (!running().empty()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

Program::End run(const std::vector<std::string>& command, const ProgramOptions& options) {
  Program program(command, options);
  Program::End end = program.wait();
  if (!program.is_gone(0ms)) throw std::runtime_error("left processes behind:\n" + end.output);
  return end;
}

}  // namespace lockstep::tests
