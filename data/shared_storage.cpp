#include "data/shared_storage.h"

namespace lockstep::data {

std::span<std::byte> PrivateStorage::allocate(std::size_t bytes) {
  std::vector<Line>& block = blocks_.emplace_back((bytes + sizeof(Line) - 1) / sizeof(Line));
  return std::as_writable_bytes(std::span(block)).first(bytes);
}

}  // namespace lockstep::data
