// Seats: how ranks that this program starts by itself come to be ranks of an MPI job.
//
// MPI knows a rank by the environment that mpirun gave to its process. Here mpirun starts, for each
// rank, a process that only lends that environment: it waits on a Unix socket for the rank to take
// its seat, and ends when the rank does. So ranks have the same launcher, the same logs and the
// same supervision whatever the backend, and MPI's launcher has no say in how a run ends. (Works
// where a rank's place is all in its environment, as with Open MPI and PMIx.)
//
// The sockets have abstract names, live on this host, and serve processes of the same user.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "comm/mpi/job_folder.h"
#include "comm/store/descriptor.h"

namespace lockstep::comm {

// An mpirun of `ranks` seats on this host; ended by the destructor, and with this process.
class MpiJob {
 public:
  // Returns when all seats can be taken. What mpirun says goes to `log_file`, to nowhere where that
  // is empty. StartupError with mpirun's last words when it does not start, or is not there.
  MpiJob(int ranks, const std::string& log_file, std::chrono::milliseconds start_timeout);
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  const std::string& seats() const { return seats_; }  // their address

 private:
  void wait_for_seats(int ranks, const std::string& log_file,
                      std::chrono::milliseconds start_timeout);
  void end() noexcept;

  std::string seats_;
  std::optional<JobFolder> folder_;
  int pid_ = -1;
};

// Lends this process's own place while it goes on with something else: a child process waits for
// the taker. Ended by the destructor.
class SeatLender {
 public:
  // Call it while this process has one thread. StartupError.
  SeatLender(const std::string& seats, int rank, std::chrono::milliseconds timeout);
  ~SeatLender();
  SeatLender(const SeatLender&) = delete;
  SeatLender& operator=(const SeatLender&) = delete;

 private:
  int pid_ = -1;
};

// Whether MpiJob can find an mpirun.
bool has_mpirun();

// In a process that mpirun started: lends its place to whoever takes it, and returns when it is
// given back; when the taker ends without that, never. False when nobody came within `timeout`.
bool lend_seat(const std::string& seats, int rank, std::chrono::milliseconds timeout);

// Whether the seat can be taken by now.
bool seat_is_offered(const std::string& seats, int rank);

// In a rank: takes its place, before MPI is initialised. The seat is held until the result goes.
// Changes the environment and the processor affinity of this process. StartupError after `timeout`.
Descriptor take_seat(const std::string& seats, int rank, std::chrono::milliseconds timeout);
// Once MPI is finalised.
void give_back_seat(const Descriptor& seat);

// This process's place in an MPI job that mpirun started it in; nothing where it has none.
struct MpiEnvironment {
  int rank = 0;
  int size = 1;
  int ranks_on_host = 1;
  std::string job;

  // Where the processes of this job offer their seats.
  std::string seats() const { return std::string(job_name_prefix) + job; }
};
std::optional<MpiEnvironment> mpi_environment();

}  // namespace lockstep::comm
