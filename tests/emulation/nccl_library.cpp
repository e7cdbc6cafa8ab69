// What the nccl backend calls on emulated GPUs instead of the library.
#include "comm/nccl/nccl_library.h"

namespace lockstep::comm {

std::shared_ptr<const NcclLibrary> NcclLibrary::load(const char*) {
  return std::make_shared<NcclLibrary>(NcclLibrary{
      .get_version = ncclGetVersion,
      .get_unique_id = ncclGetUniqueId,
      .comm_init_rank_config = ncclCommInitRankConfig,
      .comm_finalize = ncclCommFinalize,
      .comm_destroy = ncclCommDestroy,
      .comm_abort = ncclCommAbort,
      .comm_get_async_error = ncclCommGetAsyncError,
      .get_error_string = ncclGetErrorString,
      .get_last_error = ncclGetLastError,
      .group_start = ncclGroupStart,
      .group_end = ncclGroupEnd,
      .all_reduce = ncclAllReduce,
      .reduce = ncclReduce,
      .reduce_scatter = ncclReduceScatter,
      .all_gather = ncclAllGather,
      .broadcast = ncclBroadcast,
      .send = ncclSend,
      .recv = ncclRecv,
  });
}

std::string NcclLibrary::describe(const char* call, ncclResult_t result) const {
  return std::string(call) + ": " + get_error_string(result);
}

}  // namespace lockstep::comm
