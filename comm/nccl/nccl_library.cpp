#include "comm/nccl/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace lockstep::comm {
namespace {

// Functions of one library.
class Finder {
 public:
  explicit Finder(const char* file)
      : file_(file), library_(dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (library_ == nullptr)
      throw StartupError(fmt::format("backend nccl: the library is missing: {}", dlerror()));
  }

  template <class Function>
  void operator()(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr)
      throw StartupError(fmt::format("backend nccl: {} has no {}; it is too old", file_, name));
  }

 private:
  const char* file_;
  void* library_;
};

}  // namespace

std::shared_ptr<const NcclLibrary> NcclLibrary::load(const char* file) {
  const Finder find(file);
  auto nccl = std::make_shared<NcclLibrary>();
  find("ncclGetVersion", nccl->get_version);
  find("ncclGetUniqueId", nccl->get_unique_id);
  find("ncclCommInitRankConfig", nccl->comm_init_rank_config);
  find("ncclCommFinalize", nccl->comm_finalize);
  find("ncclCommDestroy", nccl->comm_destroy);
  find("ncclCommAbort", nccl->comm_abort);
  find("ncclCommGetAsyncError", nccl->comm_get_async_error);
  find("ncclGetErrorString", nccl->get_error_string);
  find("ncclGetLastError", nccl->get_last_error);
  find("ncclGroupStart", nccl->group_start);
  find("ncclGroupEnd", nccl->group_end);
  find("ncclAllReduce", nccl->all_reduce);
  find("ncclReduce", nccl->reduce);
  find("ncclReduceScatter", nccl->reduce_scatter);
  find("ncclAllGather", nccl->all_gather);
  find("ncclBroadcast", nccl->broadcast);
  find("ncclSend", nccl->send);
  find("ncclRecv", nccl->recv);
  return nccl;
}

std::string NcclLibrary::describe(const char* call, ncclResult_t result) const {
  const std::string more = get_last_error(nullptr);
  return fmt::format("{}: {}{}", call, get_error_string(result),
                     more.empty() ? "" : fmt::format(" ({})", more));
}

}  // namespace lockstep::comm
