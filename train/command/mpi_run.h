// A run over MPI: where its ranks get their seats (see comm/mpi/seats.h).
//
// Either the user started `mpirun -n N train ...`: then the process of rank 0 runs the training, on
// N ranks of its own, and the others lend theirs the seats. Or he started `train --gpus N` alone:
// then mpirun is started for him.
#pragma once

#include <optional>
#include <string>

#include "comm/mpi/seats.h"
#include "framework/base/log.h"
#include "train/config/config.h"

namespace lockstep::train {

// This process's place in the mpirun of the user; nothing for other backends. StartupError where
// its ranks are on several hosts.
std::optional<comm::MpiEnvironment> mpirun_place(const Config& config);

// What a process of mpirun other than rank 0's does, to the end; returns its exit code.
int lend_mpi_seat(const comm::MpiEnvironment& place, const Config& config);

class MpiSeats {
 public:
  // `place`: from mpirun_place(). StartupError.
  MpiSeats(const std::optional<comm::MpiEnvironment>& place, int workers, const Config& config,
           const std::string& run_folder, const Log& log);

  const std::string& address() const { return address_; }

 private:
  std::optional<comm::JobFolder> folder_;  // of the mpirun of the user; outlives the seats
  std::optional<comm::MpiJob> job_;
  std::optional<comm::SeatLender> own_;
  std::string address_;
};

}  // namespace lockstep::train
