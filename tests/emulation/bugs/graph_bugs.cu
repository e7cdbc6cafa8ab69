// Bugs in the capture of graphs and in their use.
#include <array>

#include "framework/device/buffer.h"
#include "framework/device/cuda/cuda_context.h"
#include "framework/device/cuda/device.cuh"
#include "framework/device/graph.h"
#include "tests/emulation/bugs/bugs.h"
#include "tests/emulation/bugs/device_array.h"

namespace lockstep::emulation::bugs {
namespace {

using device::launch;

constexpr unsigned threads = 64;
constexpr std::size_t bytes = threads * sizeof(float);

__global__ void add(float* data, float value) {
  data[threadIdx.x] += value;
}
__global__ void add_from(float* data, const float* value) {
  data[threadIdx.x] += *value;
}
__global__ void add_all(const float* from, float* to) {
  to[threadIdx.x] += from[threadIdx.x];
}

// A graph as CUDA has it, which knows nothing of the memory it uses.
class BareGraph {
 public:
  ~BareGraph() { cudaGraphExecDestroy(executable_); }
  void begin(const device::CudaStream& stream) {
    cudaStreamBeginCapture(stream.native(), cudaStreamCaptureModeThreadLocal);
  }
  void end(const device::CudaStream& stream) {
    cudaGraph_t graph = nullptr;
    device::check_cuda(cudaStreamEndCapture(stream.native(), &graph), "cudaStreamEndCapture",
                       stream.place());
    cudaGraphInstantiate(&executable_, graph);
    cudaGraphDestroy(graph);
  }
  void launch_on(const device::CudaStream& stream) {
    cudaGraphLaunch(executable_, stream.native());
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// The communication stream's work is captured, and nothing waits for it.
bool missing_join(bool with_bug) {
  device::CudaStream compute = make_stream(0);
  device::CudaStream communication = make_stream(0);
  const DeviceArray<float> gradient(0, threads);
  BareGraph graph;
  graph.begin(compute);
  cudaEvent_t forked = nullptr, joined = nullptr;
  cudaEventCreateWithFlags(&forked, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&joined, cudaEventDisableTiming);
  cudaEventRecord(forked, compute.native());
  cudaStreamWaitEvent(communication.native(), forked);
  launch(communication, {1, threads}, add, gradient.data(), 1.0f);
  cudaEventRecord(joined, communication.native());
  if (!with_bug) cudaStreamWaitEvent(compute.native(), joined);
  cudaEventDestroy(forked);
  cudaEventDestroy(joined);
  graph.end(compute);
  graph.launch_on(compute);
  return all_are(gradient.values(compute), 1.0f);
}

// The streams wait for each other, but in the middle of the graph one edge is missing.
bool missing_edge(bool with_bug) {
  const auto context = device::make_cuda_context(0, 0);
  const auto communication = context->make_stream("communication");
  auto& compute = device::cuda_stream(context->compute_stream());
  const DeviceArray<float> gradient(0, threads), sum(0, threads);
  compute.synchronize();
  const std::array<device::Stream*, 1> streams{communication.get()};
  const auto graph = context->capture(streams, [&] {
    launch(compute, {1, threads}, add, gradient.data(), 1.0f);
    if (!with_bug) communication->wait(compute.record());
    launch(device::cuda_stream(*communication), {1, threads}, add_all, gradient.data(), sum.data());
  });
  graph->launch();
  graph->launch();
  return all_are(sum.values(compute), 3.0f);
}

// What changes from step to step is an argument, which replays know from the capture.
bool stale_argument(bool with_bug) {
  const auto context = device::make_cuda_context(0, 0);
  auto& stream = device::cuda_stream(context->compute_stream());
  const DeviceArray<float> data(0, threads), on_device(0, 1);
  const device::Buffer on_host(context->host_memory(), sizeof(float));
  auto& rate = *static_cast<float*>(on_host.data());
  rate = 1.0f;
  const auto graph = context->capture({}, [&] {
    context->copy(on_device.data(), &rate, sizeof(float), stream);
    if (with_bug) {
      launch(stream, {1, threads}, add, data.data(), rate);
    } else {
      launch(stream, {1, threads}, add_from, data.data(), on_device.data());
    }
  });
  for (const float value : {1.0f, 2.0f, 4.0f}) {
    rate = value;
    graph->launch().wait();
  }
  return all_are(data.values(stream), 7.0f);
}

// A tensor of the captured work is freed, and the next one that is allocated lies where the graph
// writes.
bool memory_reused_under_graph(bool with_bug) {
  const auto context = device::make_cuda_context(0, 0);
  auto& stream = device::cuda_stream(context->compute_stream());
  { const device::Buffer warm_up(context->allocator(), bytes); }
  const auto body = [&] {
    const device::Buffer scratch(context->allocator(), bytes);
    launch(stream, {1, threads}, add, static_cast<float*>(scratch.data()), 1.0f);
  };
  BareGraph bare;
  std::unique_ptr<device::Graph> graph;
  if (with_bug) {
    bare.begin(stream);
    body();
    bare.end(stream);
  } else {
    graph = context->capture({}, body);
  }
  const device::Buffer tensor(context->allocator(), bytes);
  auto* const data = static_cast<float*>(tensor.data());
  cudaMemsetAsync(data, 0, bytes, stream.native());
  if (with_bug) {
    bare.launch_on(stream);
  } else {
    graph->launch();
  }
  std::vector<float> values(threads);
  context->download(values.data(), data, bytes);
  return all_are(values, 0.0f);
}

// The host looks at a result in the middle of the step.
bool host_waits_in_capture(bool with_bug) {
  const auto context = device::make_cuda_context(0, 0);
  auto& stream = device::cuda_stream(context->compute_stream());
  const DeviceArray<float> data(0, threads);
  const auto graph = context->capture({}, [&] {
    launch(stream, {1, threads}, add, data.data(), 1.0f);
    if (with_bug) cudaStreamSynchronize(stream.native());
    launch(stream, {1, threads}, add, data.data(), 1.0f);
  });
  graph->launch();
  return all_are(data.values(stream), 2.0f);
}

}  // namespace

const std::vector<Bug>& graph_bugs() {
  const MachineOptions loaded{.devices = 1, .lazy_loading = false};
  static const std::vector<Bug> bugs{
      {"missing_join", missing_join, loaded},
      {"missing_edge", missing_edge, loaded},
      {"stale_argument", stale_argument, loaded},
      {"memory_reused_under_graph", memory_reused_under_graph, loaded},
      {"host_waits_in_capture", host_waits_in_capture, loaded}};
  return bugs;
}

}  // namespace lockstep::emulation::bugs
