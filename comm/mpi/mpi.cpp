#include "comm/mpi/mpi.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "comm/mpi/mpi_files.h"
#include "comm/mpi/mpi_transport.h"
#include "comm/mpi/seats.h"
#include "comm/mpi/start_watch.h"

namespace lockstep::comm {
namespace {

constexpr const char* module_name = "lockstep_mpi.so";

const MpiApi& load_module() {
  const auto path = find_mpi_file(module_name);
  if (!path)
    throw StartupError(fmt::format("backend mpi: the module {} is not installed", module_name));
  // Global, because an MPI loads parts of its own that look for its symbols; and for good, because
  // these cannot be unloaded.
  void* const module = dlopen(path->c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (module == nullptr)
    throw StartupError(fmt::format("backend mpi: no MPI could be loaded: {}", dlerror()));
  const auto get = reinterpret_cast<GetMpiApi>(dlsym(module, mpi_api_symbol));
  if (get == nullptr || get()->layout != MpiApi::current_layout)
    throw StartupError(fmt::format("backend mpi: {} belongs to another version", *path));
  return *get();
}

// MPI learns its rank when it is initialised; a wrong one would be found far from its cause.
void check_world(const MpiTransport& transport, const MpiPlace& place) {
  if (transport.rank() == place.rank && transport.size() == place.size) return;
  throw StartupError(
      fmt::format("backend mpi: MPI says that this is rank {} of {}, expected {} of {}",
                  transport.rank(), transport.size(), place.rank, place.size));
}

// Takes the rank's seat, if there are any, before MPI looks where it is.
Descriptor take_seat_of(Store& store, const MpiPlace& place) {
  if (!store.has({mpi_seats_key}).front()) return {};
  const std::string seats = store.get(mpi_seats_key, place.start_timeout);
  Descriptor seat = take_seat(seats, place.rank, place.start_timeout);
  // Where Open MPI's shared memory goes; the transport has changed its name from 4 to 5.
  if (const std::string folder = find_job_folder(seats); !folder.empty())
    for (const char* name :
         {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"})
      ::setenv(name, folder.c_str(), 0);
  return seat;
}

}  // namespace

std::unique_ptr<Transport> connect_mpi(Store& store, const MpiPlace& place) {
  const MpiApi& api = load_module();
  Descriptor seat = take_seat_of(store, place);
  std::optional<StartWatch> watch(std::in_place, store, place.rank, place.size, place.start_timeout,
                                  place.on_stuck);
  auto session = std::make_shared<MpiSession>(api, std::move(seat));
  watch.reset();
  auto transport = std::make_unique<MpiTransport>(session, session->world());
  check_world(*transport, place);
  return transport;
}

std::string describe_mpi() {
  const MpiApi& api = load_module();
  return fmt::format("{}, {}CUDA-aware", api.library(), api.is_cuda_aware() ? "" : "not ");
}

bool has_mpi_module() {
  return find_mpi_file(module_name).has_value();
}

}  // namespace lockstep::comm
