// The memory that processes share, seen from outside.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

namespace lockstep::tests {

// The files of which a process has a shared mapping, and those in memory that it has open, each as
// its inode and its name ("7043 /memfd:lockstep (deleted)"); nothing of a process that has ended.
std::set<std::string> shared_memory_of(pid_t process);

// Those of them that some process on this machine still has, or that are still there by name.
std::set<std::string> still_there(const std::set<std::string>& memory);

}  // namespace lockstep::tests
