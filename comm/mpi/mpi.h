// MPI as a backend: whatever implementation the module was built for, loaded when the backend is
// chosen. For ranks that are processes; each process uses it once.
//
// The ranks meet by messages that are polled for, so a rank that does not come is named and an
// abort ends the wait. Once all have come the collective itself is one blocking call of MPI, which
// nothing but the end of the process can end: when a rank is lost in the middle of it the others
// have to be ended from outside (fail-stop), as the launcher does.
//
// Algorithm of all_reduce: "auto" alone, MPI's own choice. 16-bit floats travel as float in
// reductions.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "comm/message/transport.h"
#include "comm/store/store.h"

namespace lockstep::comm {

// Where in the store the ranks find the address of their seats (see seats.h). A rank that finds
// none there has to have been started by mpirun itself.
inline constexpr const char* mpi_seats_key = "mpi/seats";

struct MpiPlace {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds start_timeout{60'000};
  // Called on another thread where MPI has not started by then: nothing but the end of this process
  // ends its start.
  std::function<void(const std::exception&)> on_stuck = nullptr;
};

// Collective; all ranks have come already. StartupError where the module or the seat is missing, or
// MPI says no.
std::unique_ptr<Transport> connect_mpi(Store& store, const MpiPlace& place);

// What the module was built for, "Open MPI v4.1.4, not CUDA-aware"; loads it. StartupError.
std::string describe_mpi();

// Whether the module is there; it may still fail to load.
bool has_mpi_module();

}  // namespace lockstep::comm
