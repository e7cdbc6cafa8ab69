// Bugs between kernels that run side by side and wait for each other.
#include "framework/device/cuda/device.cuh"
#include "tests/emulation/bugs/bugs.h"
#include "tests/emulation/bugs/device_array.h"

namespace lockstep::emulation::bugs {
namespace {

using device::launch;
using device::SpinLimit;

constexpr unsigned threads = 32;
constexpr unsigned steps = 3;

// Devices 0 and 1 may use each other's memory.
void let_reach_each_other() {
  for (const int device : {0, 1}) {
    cudaSetDevice(device);
    cudaDeviceEnablePeerAccess(1 - device, 0);
  }
}

__device__ void wait_for(const unsigned* flag, unsigned value) {
  if (threadIdx.x == 0) {
    device::spin_until(
        flag, [=](unsigned seen) { return seen >= value; }, SpinLimit{});
  }
  __syncthreads();
}

__device__ void post(unsigned* flag, unsigned value, bool release) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (release) {
    device::store_release(flag, value);
  } else {
    device::store_relaxed(flag, value);
  }
}

// --- A producer and a consumer
// ----------------------------------------------------------------------

__global__ void produce(float* data, unsigned* flag, bool release) {
  data[threadIdx.x] = 5.0f;
  post(flag, 1, release);
}

__global__ void consume(const float* data, const unsigned* flag, float* result) {
  wait_for(flag, 1);
  result[threadIdx.x] = data[threadIdx.x];
}

bool relaxed_instead_of_release(bool with_bug) {
  let_reach_each_other();
  device::CudaStream producer = make_stream(0);
  device::CudaStream consumer = make_stream(1);
  const DeviceArray<float> data(0, threads);
  const DeviceArray<float> result(1, threads);
  const DeviceArray<unsigned> flag(0, 1);
  launch(producer, {1, threads}, produce, data.data(), flag.data(), !with_bug);
  launch(consumer, {1, threads}, consume, data.data(), flag.data(), result.data());
  const bool right = all_are(result.values(consumer), 5.0f);
  producer.synchronize();
  return right;
}

bool no_peer_access(bool with_bug) {
  if (!with_bug) let_reach_each_other();
  device::CudaStream producer = make_stream(0);
  device::CudaStream consumer = make_stream(1);
  const DeviceArray<float> data(0, threads);
  const DeviceArray<float> result(1, threads);
  const DeviceArray<unsigned> flag(1, 1);
  launch(consumer, {1, threads}, produce, result.data(), flag.data(), true);
  launch(consumer, {1, threads}, consume, data.data(), flag.data(), result.data());
  return all_are(result.values(consumer), 0.0f);
}

// --- Two ranks that read each other's buffer, step by step, each in a kernel of its own
// -----------------

struct Exchange {
  float* mine;
  const float* theirs;
  unsigned* my_filled;  // the step up to which mine is filled
  const unsigned* their_filled;
  unsigned* my_read;  // the step up to which I have read theirs
  const unsigned* their_read;
  float* sum;
};

struct ExchangeBug {
  unsigned wait_short_by = 0;  // how many steps too early the peer's buffer is taken as filled
  bool handshake = true;       // whether a kernel ends only when the peer has read
};

__global__ void exchange(Exchange e, unsigned step, float value, ExchangeBug bug) {
  e.mine[threadIdx.x] = value;
  post(e.my_filled, step, true);
  wait_for(e.their_filled, step - bug.wait_short_by);
  e.sum[threadIdx.x] += e.theirs[threadIdx.x];
  post(e.my_read, step, true);
  if (bug.handshake) wait_for(e.their_read, step);
}

bool run_exchange(ExchangeBug bug) {
  let_reach_each_other();
  device::CudaStream streams[] = {make_stream(0), make_stream(1)};
  const DeviceArray<float> buffers[] = {{0, threads}, {1, threads}};
  const DeviceArray<unsigned> filled[] = {{0, 1}, {1, 1}};
  const DeviceArray<unsigned> read[] = {{0, 1}, {1, 1}};
  const DeviceArray<float> sums[] = {{0, threads}, {1, threads}};
  for (unsigned step = 1; step <= steps; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const int peer = 1 - rank;
      const Exchange e{buffers[rank].data(), buffers[peer].data(), filled[rank].data(),
                       filled[peer].data(),  read[rank].data(),    read[peer].data(),
                       sums[rank].data()};
      launch(streams[rank], {1, threads}, exchange, e, step, static_cast<float>(step), bug);
    }
  }
  constexpr float expected = 1.0f + 2.0f + 3.0f;
  const bool first = all_are(sums[0].values(streams[0]), expected);
  return all_are(sums[1].values(streams[1]), expected) && first;
}

bool no_exit_handshake(bool with_bug) {
  return run_exchange({.handshake = !with_bug});
}

bool off_by_one_wait(bool with_bug) {
  return run_exchange({.wait_short_by = with_bug ? 1u : 0u});
}

// --- A signal that is wiped out
// ----------------------------------------------------------------------------

__global__ void clear_and_wait(unsigned* flag, bool clear_first) {
  if (threadIdx.x == 0 && clear_first) device::store_relaxed(flag, 0u);
  wait_for(flag, 1);
  if (threadIdx.x == 0 && !clear_first) device::store_relaxed(flag, 0u);
}

__global__ void signal(unsigned* flag) {
  device::store_release(flag, 1u);
}

bool lost_signal(bool with_bug) {
  let_reach_each_other();
  device::CudaStream sender = make_stream(0);
  device::CudaStream receiver = make_stream(1);
  const DeviceArray<unsigned> flag(1, 1);
  launch(sender, {1, 1}, signal, flag.data());
  launch(receiver, {1, threads}, clear_and_wait, flag.data(), with_bug);
  sender.synchronize();
  receiver.synchronize();
  return true;
}

// --- More blocks that wait for each other than fit
// ------------------------------------------------------------

__global__ void meet_all_blocks(unsigned* arrived) {
  if (threadIdx.x == 0) device::fetch_add_acquire_release(arrived, 1u);
  wait_for(arrived, gridDim.x);
}

bool too_many_blocks(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<unsigned> arrived(0, 1);
  int blocks = 0;
  int multiprocessors = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, meet_all_blocks, threads, 0);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  const auto all = static_cast<unsigned>(blocks * multiprocessors);
  launch(stream, {with_bug ? all + 1 : all, threads}, meet_all_blocks, arrived.data());
  return arrived.values(stream)[0] == all;
}

// --- A wait that is over when the time is, not when the peer has come
// --------------------------------------------

__global__ void wait_in_time(const unsigned* flag, unsigned* end, std::uint64_t nanoseconds) {
  const SpinLimit limit{nullptr, device::global_timer() + nanoseconds};
  *end = static_cast<unsigned>(device::spin_until(
      flag, [](unsigned value) { return value == 1; }, limit));
}

bool absent_peer(bool with_bug) {
  let_reach_each_other();
  device::CudaStream sender = make_stream(0);
  device::CudaStream receiver = make_stream(1);
  const DeviceArray<unsigned> flag(0, 1);
  const DeviceArray<unsigned> end(1, 1);
  constexpr std::uint64_t minute = 60'000'000'000;
  launch(receiver, {1, 1}, wait_in_time, flag.data(), end.data(), minute);
  if (!with_bug) launch(sender, {1, 1}, signal, flag.data());
  return end.values(receiver)[0] == static_cast<unsigned>(device::SpinEnd::ready);
}

}  // namespace

const std::vector<Bug>& wait_bugs() {
  // What these are about is not the loading of kernels while others run.
  const MachineOptions loaded{.devices = 2, .lazy_loading = false};
  MachineOptions small = loaded;
  small.limits = {.multiprocessors = 2, .each = {.blocks = 4}};
  static const std::vector<Bug> bugs{
      {"relaxed_instead_of_release", relaxed_instead_of_release, loaded},
      {"no_peer_access", no_peer_access, loaded},
      {"no_exit_handshake", no_exit_handshake, loaded},
      {"off_by_one_wait", off_by_one_wait, loaded},
      {"lost_signal", lost_signal, loaded},
      {"too_many_blocks", too_many_blocks, small},
      {"absent_peer", absent_peer, loaded}};
  return bugs;
}

}  // namespace lockstep::emulation::bugs
