#include "comm/memory/symmetric_buffer.h"

#include <functional>

namespace lockstep::comm {

bool SymmetricBuffer::contains(const void* data, std::size_t bytes) const {
  const std::span<std::byte> part = local();
  const auto* begin = static_cast<const std::byte*>(data);
  // std::less orders pointers of unrelated objects too.
  const std::less_equal<> not_after;
  return not_after(part.data(), begin) && not_after(begin, part.data() + part.size()) &&
         bytes <= static_cast<std::size_t>(part.data() + part.size() - begin);
}

}  // namespace lockstep::comm
