#include "data/shared_storage.h"

namespace lockstep::data {

std::span<std::byte> PrivateStorage::allocate(std::size_t bytes) {
  const std::size_t lines = (bytes + sizeof(Line) - 1) / sizeof(Line);
  blocks_.push_back(std::make_unique_for_overwrite<Line[]>(lines));
  return std::as_writable_bytes(std::span(blocks_.back().get(), lines)).first(bytes);
}

}  // namespace lockstep::data
