// Namespaces: hosts of a test, as network namespaces that one bridge connects. Host i has the
// address 10.77.0.(i + 1) on its interface eth0. They go with the object.
#pragma once

#include <string>

namespace lockstep::tests {

class Namespaces {
 public:
  // Whether this process may make any.
  static bool are_possible();

  // Throws when it cannot; of two tests at the same time each has its own.
  explicit Namespaces(int hosts);
  ~Namespaces();
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  // The calling thread is on that host from now on.
  void enter(int host) const;
  void cut(int host) const;  // off the bridge

 private:
  std::string name(int host) const;

  std::string prefix_;  // of the names of this process's
  int hosts_;
};

}  // namespace lockstep::tests
