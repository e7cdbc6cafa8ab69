// Where the files of the MPI backend lie: the module and the program of the seats.
#pragma once

#include <optional>
#include <string>

namespace lockstep::comm {

// The path of lib/lockstep/<name>, beside the folder of this program; nothing where it is not.
std::optional<std::string> find_mpi_file(const std::string& name);

}  // namespace lockstep::comm
