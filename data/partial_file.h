// Where a file is written until it is complete: "<file>.partial-<pid>", in the same folder, since
// renaming is atomic within a file system only.
#pragma once

#include <string>

namespace lockstep::data {

// The name for this process.
std::string partial_name(const std::string& path);

// Removes what writers of `path` left behind that were killed: their process is gone and nobody
// holds a lock on the file, as HDF5 does while it writes (a process of that number may live on
// another host that shares the folder). What cannot be removed stays; it disturbs nobody.
void remove_stale_partials(const std::string& path);

}  // namespace lockstep::data
