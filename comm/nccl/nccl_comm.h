// NcclComm: one rank's ncclComm_t, used without ever blocking in the library for ever.
#pragma once

#include <nccl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "comm/nccl/nccl.h"
#include "comm/nccl/nccl_library.h"
#include "framework/device/stream.h"

namespace lockstep::comm {

// Collective: `gpu` is the same on two ranks exactly when they use the same one. StartupError names
// two ranks that share a GPU, of which NCCL would say no more than "invalid usage", or a rank that
// does not come.
void require_own_gpus(Store& store, const NcclPlace& place, const std::string& gpu);

// Thread-safe: abort() and failure() may come while another thread is in call().
class NcclComm {
 public:
  // Collective over the ranks that hold `id`; the calling thread's current GPU becomes the rank's.
  // StartupError when the others are not there by the deadline.
  NcclComm(std::shared_ptr<const NcclLibrary> library, int rank, int size, const ncclUniqueId& id,
           device::Deadline deadline);
  ~NcclComm();  // flushes what was enqueued, unless aborted
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  const NcclLibrary& library() const { return *library_; }

  // Makes calls of the library, `name` the one to blame: enqueue(ncclComm_t) -> ncclResult_t.
  // Throws Error with what NCCL says, and when the communicator was aborted.
  template <class Enqueue>
  void call(const char* name, device::Deadline deadline, Enqueue&& enqueue) {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) throw Error("the communicator of NCCL was aborted");
    settle(name, enqueue(comm_), deadline);
  }

  // What went wrong while collectives ran: a connection or a GPU was lost.
  std::optional<std::string> failure();

  // Ends collectives in progress, so that the streams they were enqueued on go on.
  void abort() noexcept;

 private:
  // Waits while the library has not finished the call itself; throws unless it went well.
  void settle(const char* name, ncclResult_t result, device::Deadline deadline);

  std::shared_ptr<const NcclLibrary> library_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace lockstep::comm
