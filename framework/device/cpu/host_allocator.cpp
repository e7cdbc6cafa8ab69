#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "framework/device/cpu/cpu_context.h"
#include "framework/device/out_of_memory.h"

namespace lockstep::device {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

class HostAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    // Huge pages save most of the TLB misses of a pass over a big block.
    const bool huge = bytes >= huge_page;
    const std::size_t boundary = huge ? huge_page : alignment;
    void* const pointer = bytes > SIZE_MAX - boundary
                              ? nullptr
                              : std::aligned_alloc(boundary, align_up(bytes, boundary));
    if (pointer == nullptr) throw OutOfMemory(bytes, "the memory of this host");
    // Only advice: a system without huge pages serves ordinary ones.
    if (huge) madvise(pointer, align_up(bytes, boundary), MADV_HUGEPAGE);
    return pointer;
  }
  void deallocate(void* pointer, std::size_t /*bytes*/) noexcept override { std::free(pointer); }
};

}  // namespace

Allocator& host_allocator() {
  static HostAllocator allocator;
  return allocator;
}

}  // namespace lockstep::device
