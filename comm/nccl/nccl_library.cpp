#include "comm/nccl/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace lockstep::comm {
namespace {

// The library of the toolkit's major version; the same interface since 2.14.
constexpr const char* library_name = "libnccl.so.2";

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw StartupError(
        fmt::format("backend nccl: {} has no {}; it is too old", library_name, name));
}

}  // namespace

std::shared_ptr<const NcclLibrary> NcclLibrary::load() {
  void* const library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    throw StartupError(fmt::format("backend nccl: the library is missing: {}", dlerror()));
  auto nccl = std::make_shared<NcclLibrary>();
  find(library, "ncclGetVersion", nccl->get_version);
  find(library, "ncclGetUniqueId", nccl->get_unique_id);
  find(library, "ncclCommInitRankConfig", nccl->comm_init_rank_config);
  find(library, "ncclCommFinalize", nccl->comm_finalize);
  find(library, "ncclCommDestroy", nccl->comm_destroy);
  find(library, "ncclCommAbort", nccl->comm_abort);
  find(library, "ncclCommGetAsyncError", nccl->comm_get_async_error);
  find(library, "ncclGetErrorString", nccl->get_error_string);
  find(library, "ncclGetLastError", nccl->get_last_error);
  find(library, "ncclGroupStart", nccl->group_start);
  find(library, "ncclGroupEnd", nccl->group_end);
  find(library, "ncclAllReduce", nccl->all_reduce);
  find(library, "ncclReduce", nccl->reduce);
  find(library, "ncclReduceScatter", nccl->reduce_scatter);
  find(library, "ncclAllGather", nccl->all_gather);
  find(library, "ncclBroadcast", nccl->broadcast);
  find(library, "ncclSend", nccl->send);
  find(library, "ncclRecv", nccl->recv);
  return nccl;
}

std::string NcclLibrary::describe(const char* call, ncclResult_t result) const {
  const std::string more = get_last_error(nullptr);
  return fmt::format("{}: {}{}", call, get_error_string(result),
                     more.empty() ? "" : fmt::format(" ({})", more));
}

}  // namespace lockstep::comm
