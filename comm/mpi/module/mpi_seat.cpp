// The program that mpirun starts for each rank: lends the rank its place in the job; see seats.h.
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>

#include "comm/mpi/seats.h"

int main(int argc, char** argv) try {
  using namespace lockstep::comm;
  const auto place = mpi_environment();
  if (argc != 2 || !place) {
    std::fprintf(stderr, "mpi_seat: expected to be started by mpirun for the backend mpi\n");
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // of mpirun, which can be killed
  // The ranks come at once or never; whoever started mpirun ends it with them.
  return lend_seat(argv[1], place->rank, std::chrono::hours(1)) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "mpi_seat: %s\n", error.what());
  return 5;
}
