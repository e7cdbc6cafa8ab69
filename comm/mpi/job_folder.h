// JobFolder: the folder of an MPI job in shared memory, for what its processes leave when they are
// killed.
//
// MPI's processes meet in files: those that map memory together, those of mpirun's session. They
// remove them when they end well. So that no end of a run leaves any, all are put into one folder,
// and a keeper, a small process of its own, removes it as soon as the launcher and mpirun are gone,
// whatever has become of them. Should even the keeper be killed, the next run of the same user
// removes what it finds without one.
#pragma once

#include <string>
#include <string_view>

#include "comm/store/descriptor.h"

namespace lockstep::comm {

// What the names of all jobs begin with.
inline constexpr std::string_view job_name_prefix = "lockstep-mpi-";

class JobFolder {
 public:
  // `name` is the job's own and begins with the prefix. StartupError.
  explicit JobFolder(const std::string& name);
  ~JobFolder();  // returns when the folder is gone; a process that inherited guard() has ended
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::string& path() const { return path_; }
  // The folder stays while any process holds a copy of it; closed when a program is executed.
  int guard() const { return guard_.get(); }

 private:
  std::string path_;
  Descriptor lock_;   // held while somebody uses the folder
  Descriptor guard_;  // the end of a pipe on which the keeper waits
  int keeper_ = -1;
};

// For a rank: where the folder of the job `name` is; empty where there is none of this user.
std::string find_job_folder(const std::string& name);

}  // namespace lockstep::comm
