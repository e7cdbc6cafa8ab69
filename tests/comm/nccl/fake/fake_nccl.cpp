// A stand-in for NCCL that keeps to its rules without a GPU and moves no data: communicators that
// do not block, groups, asynchronous errors, abort. All its ranks are in one process.
#include "tests/comm/nccl/fake/fake_nccl.h"

#include <nccl.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

struct ncclComm {
  std::string id;
  int rank = 0, size = 0;
  int looks = 0;  // since the last call that is still in progress
};

namespace {

struct State {
  std::mutex mutex;
  int ids = 0;
  std::map<std::string, std::set<int>> arrived;  // by id
  std::map<int, ncclResult_t> failures;          // by rank
  lockstep::tests::FakeNcclCounts counts{};
};
State& state() {
  static State all;
  return all;
}
thread_local int group_depth = 0;

// Every call is in progress for a while.
constexpr int looks_until_done = 3;

ncclResult_t enqueue(ncclComm_t comm) {
  const std::lock_guard lock(state().mutex);
  ++state().counts.calls;
  if (group_depth > 0) ++state().counts.calls_grouped;
  comm->looks = looks_until_done;
  return group_depth > 0 ? ncclSuccess : ncclInProgress;
}

}  // namespace

extern "C" {

lockstep::tests::FakeNcclCounts fake_nccl_counts();
lockstep::tests::FakeNcclCounts fake_nccl_counts() {
  const std::lock_guard lock(state().mutex);
  return state().counts;
}

void fake_nccl_fail(int rank, int result);
void fake_nccl_fail(int rank, int result) {
  const std::lock_guard lock(state().mutex);
  state().failures[rank] = static_cast<ncclResult_t>(result);
}

ncclResult_t ncclGetVersion(int* version) {
  *version = 21400;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(state().mutex);
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "fake %d", ++state().ids);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;  // the project never blocks here
  *comm = new ncclComm{id.internal, rank, size, 0};
  const std::lock_guard lock(state().mutex);
  if (!state().arrived[id.internal].insert(rank).second) return ncclInvalidUsage;
  ++state().counts.joined;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const std::lock_guard lock(state().mutex);
  *result = ncclSuccess;
  if (const auto failure = state().failures.find(comm->rank);
      failure != state().failures.end() && failure->second != ncclSuccess)
    *result = failure->second;
  else if (static_cast<int>(state().arrived[comm->id].size()) < comm->size || comm->looks-- > 0)
    *result = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(state().mutex);
  ++state().counts.finalized;
  comm->looks = looks_until_done;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(state().mutex);
  ++state().counts.destroyed;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(state().mutex);
  ++state().counts.aborted;
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "some error";
}

const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return --group_depth == 0 ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t) {
  return enqueue(comm);
}
ncclResult_t ncclReduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int,
                        ncclComm_t comm, cudaStream_t) {
  return enqueue(comm);
}
ncclResult_t ncclReduceScatter(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t) {
  return enqueue(comm);
}
ncclResult_t ncclAllGather(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t) {
  return enqueue(comm);
}
ncclResult_t ncclBroadcast(const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t comm,
                           cudaStream_t) {
  return enqueue(comm);
}
ncclResult_t ncclSend(const void*, std::size_t, ncclDataType_t, int, ncclComm_t comm,
                      cudaStream_t) {
  return enqueue(comm);
}
ncclResult_t ncclRecv(void*, std::size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  return enqueue(comm);
}

}  // extern "C"
