#include "framework/device/cpu/cpu_context.h"

#include <cstring>

#include "framework/device/thread_pool.h"

namespace lockstep::device {
namespace {

class CpuContext final : public Context {
 public:
  explicit CpuContext(int threads)
      : allocator_(host_allocator()), compute_stream_(make_inline_stream()), threads_(threads) {}

  Device device() const override { return {}; }
  CachingAllocator& allocator() override { return allocator_; }
  Allocator& host_memory() override { return allocator_; }
  Stream& compute_stream() override { return *compute_stream_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override {
    return make_thread_stream(name);
  }
  ThreadPool& threads() override { return threads_; }
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override {
    stream.enqueue([=] {
      if (bytes != 0) std::memcpy(to, from, bytes);
    });
  }

 private:
  CachingAllocator allocator_;
  std::unique_ptr<Stream> compute_stream_;
  ThreadPool threads_;
};

}  // namespace

std::unique_ptr<Context> make_cpu_context(int threads) {
  return std::make_unique<CpuContext>(threads);
}

}  // namespace lockstep::device
