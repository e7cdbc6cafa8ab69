#include "comm/nccl/nccl_comm.h"

#include <fmt/format.h>

#include <thread>

namespace lockstep::comm {
namespace {

constexpr std::chrono::microseconds poll_interval{100};
constexpr std::chrono::seconds longest_flush{10};

}  // namespace

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
