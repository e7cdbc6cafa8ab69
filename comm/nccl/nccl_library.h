// NcclLibrary: NCCL's functions, found at run time.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "framework/base/error.h"

namespace lockstep::comm {

struct NcclLibrary {
  // The library of the toolkit's major version; the same interface since 2.14.
  static constexpr const char* file_name = "libnccl.so.2";
  // StartupError where the library is missing or lacks a function. Never unloaded.
  static std::shared_ptr<const NcclLibrary> load(const char* file = file_name);

  decltype(&::ncclGetVersion) get_version;
  decltype(&::ncclGetUniqueId) get_unique_id;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&::ncclCommFinalize) comm_finalize;
  decltype(&::ncclCommDestroy) comm_destroy;
  decltype(&::ncclCommAbort) comm_abort;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error;
  decltype(&::ncclGetErrorString) get_error_string;
  decltype(&::ncclGetLastError) get_last_error;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclReduce) reduce;
  decltype(&::ncclReduceScatter) reduce_scatter;
  decltype(&::ncclAllGather) all_gather;
  decltype(&::ncclBroadcast) broadcast;
  decltype(&::ncclSend) send;
  decltype(&::ncclRecv) recv;

  // "ncclAllReduce: unhandled cuda error (Cuda failure ...)".
  std::string describe(const char* call, ncclResult_t result) const;
};

}  // namespace lockstep::comm
