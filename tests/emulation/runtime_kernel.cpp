// Kernel launches, tasks and graphs of the runtime API.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/emulation/runtime_call.h"
#include "tests/emulation/symbols.h"

using namespace lockstep::emulation;

struct CUgraph_st {
  std::shared_ptr<const Graph> graph;
};
struct CUgraphExec_st {
  std::shared_ptr<const Graph> graph;
  bool own_priorities;
};

namespace lockstep::emulation {
namespace {

// Loading code may wait for the device, but need not.
void load(const RuntimeCall& call, const void* kernel) {
  if (!call->loaded_kernels().emplace(call.context(), kernel).second) return;
  if (!call->options().lazy_loading) return;
  const char* const loading = std::getenv("CUDA_MODULE_LOADING");
  if (loading != nullptr && std::strcmp(loading, "EAGER") == 0) return;
  if (!call->devices().random().once_in(2)) return;
  const std::string what = "the first launch of " + name_of_function(kernel);
  call.wait_for_device(call.context(), what.c_str());
}

bool fits(const cudaLaunchConfig_t& config, const DeviceLimits& limits) {
  const auto valid = [](const dim3& extent) {
    return extent.x != 0 && extent.y != 0 && extent.z != 0;
  };
  constexpr unsigned most_blocks_y = 65535;
  constexpr unsigned most_threads_z = 64;
  return valid(config.gridDim) && valid(config.blockDim) && config.gridDim.y <= most_blocks_y &&
         config.gridDim.z <= most_blocks_y && config.blockDim.z <= most_threads_z &&
         std::uint64_t{config.blockDim.x} * config.blockDim.y * config.blockDim.z <=
             limits.threads_per_block;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::unique_ptr<const KernelCall> kernel_call) {
  const RuntimeCall call;
  Stream* const stream = call.stream(config.stream, "a launch");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = call.may_enqueue(*stream); status != cudaSuccess) return status;
  if (stream->device != current_device()) return call.fail(cudaErrorInvalidResourceHandle);
  if (!fits(config, call->options().limits)) return call.fail(cudaErrorInvalidConfiguration);
  const std::size_t shared_limit = call->options().limits.shared_bytes_per_block;
  if (config.dynamicSmemBytes > shared_limit) return call.fail(cudaErrorInvalidValue);
  if (!stream->capture) load(call, kernel);
  const auto extent = [](const dim3& d) { return Extent3{d.x, d.y, d.z}; };
  call->enqueue(*stream,
                std::make_shared<Work>(Work{.kind = Work::Kind::kernel,
                                            .call = std::move(kernel_call),
                                            .name = name_of_function(kernel),
                                            .device = stream->device,
                                            .grid_extent = extent(config.gridDim),
                                            .block_extent = extent(config.blockDim),
                                            .dynamic_shared_bytes = config.dynamicSmemBytes,
                                            .shared_limit = shared_limit}));
  return call.usable();
}

cudaError_t enqueue_task(cudaStream_t handle, const char* name,
                         std::unique_ptr<const KernelCall> task) {
  const RuntimeCall call;
  Stream* const stream = call.stream(handle, name);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = call.may_enqueue(*stream); status != cudaSuccess) return status;
  call->enqueue(*stream, std::make_shared<Work>(Work{.kind = Work::Kind::task,
                                                     .call = std::move(task),
                                                     .name = name,
                                                     .device = stream->device}));
  return cudaSuccess;
}

cudaError_t attributes_of(cudaFuncAttributes* attributes, const void* kernel) {
  const RuntimeCall call;
  if (const cudaError_t status = call.usable(); status != cudaSuccess) return status;
  load(call, kernel);
  attributes->maxThreadsPerBlock = static_cast<int>(call->options().limits.threads_per_block);
  attributes->maxDynamicSharedSizeBytes =
      static_cast<int>(call->options().limits.shared_bytes_per_block);
  return cudaSuccess;
}

cudaError_t blocks_per_multiprocessor(int* blocks, int threads, std::size_t shared_bytes) {
  const RuntimeCall call(false);
  if (threads < 0 || shared_bytes > call->options().limits.shared_bytes_per_block) {
    return call.fail(cudaErrorInvalidValue);
  }
  *blocks = static_cast<int>(call->options().limits.blocks_per_multiprocessor(
      static_cast<unsigned>(threads), shared_bytes));
  return cudaSuccess;
}

}  // namespace lockstep::emulation

// --- Graphs
// -----------------------------------------------------------------------------------------------

namespace {

// Whether every node is followed, however far off, by one of `last`.
bool all_lead_to(const Graph& graph, const std::vector<std::size_t>& last) {
  std::vector<bool> leads(graph.nodes.size());
  for (const std::size_t node : last) leads[node] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (!leads[i]) return false;  // whoever follows it comes later and has been looked at
    for (const std::size_t before : graph.nodes[i].follows) leads[before] = true;
  }
  return true;
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const RuntimeCall call;
  Stream* const stream = call.stream(handle, "cudaStreamBeginCapture");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture) return call.misuse("cudaStreamBeginCapture: the stream is captured already");
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->relaxed = mode == cudaStreamCaptureModeRelaxed;
  stream->capture->streams.push_back(stream);
  stream->captured.clear();
  return call.usable();
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const RuntimeCall call;
  *graph = nullptr;
  Stream* const stream = call.stream(handle, "cudaStreamEndCapture");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const auto capture = stream->capture;
  if (!capture || capture->origin != stream) return call.fail(cudaErrorStreamCaptureUnmatched);
  if (!capture->relaxed && capture->thread != std::this_thread::get_id()) {
    return call.fail(cudaErrorStreamCaptureWrongThread);
  }
  capture->ended = true;
  const bool joined = all_lead_to(*capture->graph, stream->captured);
  for (Stream* const captured : capture->streams) {
    captured->capture = nullptr;
    captured->captured.clear();
  }
  if (capture->invalid) return call.fail(cudaErrorStreamCaptureInvalidated);
  if (!joined) return call.fail(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{capture->graph};
  ++call->graphs();
  return call.usable();
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const RuntimeCall call(false);
  const Stream* const stream = call.stream(handle, "cudaStreamIsCapturing");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  *status = !stream->capture           ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  const RuntimeCall call;
  // As it may on a GPU, where it needs memory.
  call.wait_for_device(call.context(), "cudaGraphInstantiate");
  const bool own_priorities = (flags & cudaGraphInstantiateFlagUseNodePriority) != 0;
  *executable = new CUgraphExec_st{graph->graph, own_priorities};
  ++call->graphs();
  return call.usable();
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t handle) {
  const RuntimeCall call;
  const Stream* const stream = call.stream(handle, "cudaGraphUpload");
  return stream == nullptr ? cudaErrorInvalidResourceHandle : call.may_enqueue(*stream);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  const RuntimeCall call;
  Stream* const stream = call.stream(handle, "cudaGraphLaunch");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = call.usable(); status != cudaSuccess) return status;
  if (stream->capture) return call.misuse("cudaGraphLaunch on a stream that is captured");
  call->devices().enqueue(
      *stream, {.graph = executable->graph, .own_priorities = executable->own_priorities});
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const RuntimeCall call(false);
  delete graph;
  --call->graphs();
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const RuntimeCall call(false);
  delete executable;
  --call->graphs();
  return cudaSuccess;
}
