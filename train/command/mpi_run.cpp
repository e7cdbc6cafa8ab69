#include "train/command/mpi_run.h"

#include <fmt/format.h>

#include "comm/backend.h"
#include "comm/mpi/mpi.h"
#include "framework/base/error.h"
#include "train/exit_code.h"
#include "train/recipe.h"

namespace lockstep::train {

std::optional<comm::MpiEnvironment> mpirun_place(const Config& config) {
  if (config.comm.backend == "auto" || !comm::find_backend(config.comm.backend).takes_mpi_seats)
    return std::nullopt;
  auto place = comm::mpi_environment();
  if (place && place->ranks_on_host != place->size)
    throw StartupError(
        fmt::format("mpirun started {} of {} ranks on this host; training over "
                    "several hosts is not there yet",
                    place->ranks_on_host, place->size));
  return place;
}

int lend_mpi_seat(const comm::MpiEnvironment& place, const Config& config) {
  if (comm::lend_seat(place.seats(), place.rank, milliseconds(config.comm.start_timeout)))
    return exit_done;
  throw StartupError(fmt::format("rank {} of mpirun was not needed within {:g} s", place.rank,
                                 config.comm.start_timeout));
}

MpiSeats::MpiSeats(const std::optional<comm::MpiEnvironment>& place, int workers,
                   const Config& config, const std::string& run_folder, const Log& log) {
  log.info("MPI: {}", comm::describe_mpi());
  if (place) {
    address_ = place->seats();
    folder_.emplace(address_);
    own_.emplace(address_, place->rank, milliseconds(config.comm.start_timeout));
    log.info("the {} processes of mpirun lend the ranks their places", workers);
    return;
  }
  job_.emplace(workers, run_folder + "/mpirun.log", milliseconds(config.comm.start_timeout));
  address_ = job_->seats();
  log.info("started mpirun for {} ranks; what it says: {}/mpirun.log", workers, run_folder);
}

}  // namespace lockstep::train
