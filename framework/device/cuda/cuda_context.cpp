#include "framework/device/cuda/cuda_context.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdlib>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define LOCKSTEP_HAS_NVTX
#endif

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_graph.h"
#include "framework/device/cuda/cuda_memory.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/device/thread_pool.h"

namespace lockstep::device {
namespace {

// While there is one, threads that are started never take a signal that is sent to the program,
// whose own threads wait for it.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t sent;
    sigemptyset(&sent);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&sent, signal);
    pthread_sigmask(SIG_BLOCK, &sent, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

class CudaContext final : public Context {
 public:
  explicit CudaContext(const CudaPlace& place)
      : place_(place),
        device_source_(place),
        host_source_(place),
        allocator_(device_source_),
        host_memory_(host_source_),
        compute_stream_(place, StreamPriority::normal, "compute"),
        threads_(1) {}
  ~CudaContext() override { release_attachments(); }

  Device device() const override { return {DeviceKind::cuda, place_.device}; }
  CachingAllocator& allocator() override { return allocator_; }
  Allocator& host_memory() override { return host_memory_; }
  Stream& compute_stream() override { return compute_stream_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override {
    return std::make_unique<CudaStream>(place_, StreamPriority::high, name);
  }
  ThreadPool& threads() override { return threads_; }

  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override {
    const CudaStream& cuda = cuda_stream(stream);
    cuda.activate();
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda.native()),
               "cudaMemcpyAsync", place_);
  }

#ifdef LOCKSTEP_HAS_NVTX
  void begin_range(const char* name) override {
    nvtxRangePushA(name);
  }
  void end_range() override {
    nvtxRangePop();
  }
#endif

  bool has_graphs() const override {
    return true;
  }
  std::unique_ptr<Graph> capture(std::span<Stream* const> streams,
                                 const std::function<void()>& body) override {
    const std::array<CachingAllocator*, 2> memory{&allocator_, &host_memory_};
    CudaCapture capture(compute_stream_, streams, memory);
    body();
    return capture.end();
  }

 private:
  CudaPlace place_;
  CudaDeviceMemory device_source_;
  CudaHostMemory host_source_;
  CachingAllocator allocator_;
  CachingAllocator host_memory_;
  CudaStream compute_stream_;
  ThreadPool threads_;
};

std::string reason_for_none(cudaError_t status) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    return "no NVIDIA driver is installed";
  }
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format("the NVIDIA driver serves CUDA {}.{}, this program was built with {}.{}",
                       driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                       CUDART_VERSION % 1000 / 10);
  }
  return fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace

void prepare_cuda_process() {
  constexpr int keep_users_choice = 0;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", keep_users_choice);
  setenv("CUDA_MODULE_LOADING", "EAGER", keep_users_choice);
}

CudaDevices cuda_devices() {
  const SignalsBlocked for_the_drivers_threads;
  CudaDevices devices;
  const cudaError_t status = cudaGetDeviceCount(&devices.count);
  if (status == cudaSuccess && devices.count > 0) return devices;
  cudaGetLastError();
  devices.count = 0;
  devices.reason = reason_for_none(status == cudaSuccess ? cudaErrorNoDevice : status);
  return devices;
}

CudaDeviceDescription describe_cuda_device(int index) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties",
             {.device = index});
  return {properties.name, properties.totalGlobalMem, properties.multiProcessorCount,
          properties.major, properties.minor};
}

std::unique_ptr<Context> make_cuda_context(int index, int rank) {
  const CudaDevices devices = cuda_devices();
  if (devices.count == 0) {
    throw StartupError(
        fmt::format("cuda:{} was asked for, but there is no GPU: {}", index, devices.reason));
  }
  if (index < 0 || index >= devices.count) {
    throw StartupError(
        fmt::format("cuda:{} was asked for, but there are {} GPUs, cuda:0 to cuda:{}", index,
                    devices.count, devices.count - 1));
  }
  return std::make_unique<CudaContext>(CudaPlace{index, rank});
}

}  // namespace lockstep::device
