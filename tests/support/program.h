// Program: a program started by a test and watched from outside.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "comm/store/descriptor.h"

namespace lockstep::tests {

struct ProgramOptions {
  std::string folder = {};                              // to start it in; empty: the test's own
  std::map<std::string, std::string> environment = {};  // added to the test's own
  std::chrono::seconds longest_wait{60};                // for anything the test waits for
};

class Program {
 public:
  // Starts `command` in a process group of its own.
  explicit Program(const std::vector<std::string>& command, const ProgramOptions& options = {});
  ~Program();  // kills what is left of the group
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int signal) const;        // the program itself
  void signal_group(int signal) const;  // as a terminal does

  std::string output() const;  // stdout and stderr, so far
  // Waits until the output holds `text` `times` times; throws after the longest wait.
  void wait_for_output(const std::string& text, int times = 1) const;
  // The process that the launcher started for a rank, which must be running by now.
  pid_t worker(int rank) const;
  // All processes of the group that run (a zombie does not).
  std::vector<pid_t> running() const;

  struct End {
    int exit_code = 0;  // 128 + signal for a death by a signal
    double seconds = 0;
    std::string output;     // stdout and stderr
    std::string last_line;  // of it
  };
  // Throws when it takes longer than the longest wait.
  End wait();

  // Waits until no process of the group is running; false after `timeout`.
  bool is_gone(std::chrono::milliseconds timeout) const;

 private:
  pid_t pid_ = -1;
  ProgramOptions options_;
  comm::Descriptor output_;
  std::chrono::steady_clock::time_point started_;
  bool ended_ = false;
};

// Runs it to its end; throws when a process of it is left behind.
Program::End run(const std::vector<std::string>& command, const ProgramOptions& options = {});

}  // namespace lockstep::tests
