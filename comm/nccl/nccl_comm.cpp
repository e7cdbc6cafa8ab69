#include "comm/nccl/nccl_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace lockstep::comm {
namespace {

constexpr std::chrono::microseconds poll_interval{100};
constexpr std::chrono::seconds longest_flush{10};

}  // namespace

void require_own_gpus(Store& store, const NcclPlace& place, const std::string& gpu) {
  const auto key = [&](int rank) { return fmt::format("{}/gpu/{}", place.prefix, rank); };
  store.set(key(place.rank), gpu);
  for (int r = 0; r < place.size; ++r) {
    std::string theirs;
    try {
      theirs = store.get(key(r), place.start_timeout);
    } catch (const StartupError&) {
      throw StartupError(fmt::format("backend nccl: rank {} did not come within {:.1f} s", r,
                                     std::chrono::duration<double>(place.start_timeout).count()));
    }
    if (r != place.rank && theirs == gpu)
      throw StartupError(
          fmt::format("backend nccl: ranks {} and {} are both on GPU {}; NCCL needs a GPU for each "
                      "rank",
                      std::min(r, place.rank), std::max(r, place.rank), place.device.index));
  }
}

NcclComm::NcclComm(std::shared_ptr<const NcclLibrary> library, int rank, int size,
                   const ncclUniqueId& id, device::Deadline deadline)
    : library_(std::move(library)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // calls return at once, and waits here have a deadline
  try {
    const ncclResult_t result = library_->comm_init_rank_config(&comm_, size, id, rank, &config);
    settle("ncclCommInitRankConfig", result, deadline);
  } catch (const Error& error) {
    abort();
    throw StartupError(
        fmt::format("backend nccl: rank {} of {} cannot join: {}", rank, size, error.what()));
  }
}

NcclComm::~NcclComm() {
  if (comm_ == nullptr) return;
  try {
    const auto deadline = device::Clock::now() + longest_flush;
    call("ncclCommFinalize", deadline,
         [&](ncclComm_t comm) { return library_->comm_finalize(comm); });
    library_->comm_destroy(comm_);
  } catch (const Error&) {
    abort();
  }
}

void NcclComm::settle(const char* name, ncclResult_t result, device::Deadline deadline) {
  while (result == ncclInProgress) {
    if (device::Clock::now() >= deadline)
      throw Error(fmt::format("{} did not end in time: some rank did not come", name));
    std::this_thread::sleep_for(poll_interval);
    if (library_->comm_get_async_error(comm_, &result) != ncclSuccess) result = ncclInternalError;
  }
  if (result != ncclSuccess) throw Error(library_->describe(name, result));
}

std::optional<std::string> NcclComm::failure() {
  const std::lock_guard lock(mutex_);
  ncclResult_t result = ncclSuccess;
  if (comm_ == nullptr) return "it was aborted";
  if (library_->comm_get_async_error(comm_, &result) != ncclSuccess) result = ncclInternalError;
  if (result == ncclSuccess || result == ncclInProgress) return std::nullopt;
  return library_->describe("a collective of NCCL", result);
}

void NcclComm::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_ != nullptr) library_->comm_abort(comm_);
  comm_ = nullptr;
}

}  // namespace lockstep::comm
