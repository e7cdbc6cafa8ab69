#include "framework/device/buffer.h"

#include <utility>

namespace lockstep::device {

Buffer::Buffer(Allocator& allocator, std::size_t bytes)
    : data_(allocator.allocate(bytes),
            [&allocator, bytes](void* pointer) { allocator.deallocate(pointer, bytes); }),
      bytes_(bytes) {}

Buffer::Buffer(void* data, std::size_t bytes, std::shared_ptr<void> owner)
    : data_(std::move(owner), data), bytes_(bytes) {}

}  // namespace lockstep::device
