#include "tests/emulation/shared_memory.h"

#include <cstdint>

#include "tests/emulation/patterns.h"
#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

constexpr std::size_t red_zone = 64;
constexpr std::size_t granule = 128;  // arrays begin at multiples of it

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

SharedMemory::~SharedMemory() {
  for (const Array& array : arrays_) unpoison(array.begin - red_zone, array.bytes + 2 * red_zone);
}

void* SharedMemory::declared(const void* declaration, std::size_t bytes, std::size_t alignment,
                             const char* name) {
  for (const Array& array : arrays_) {
    if (array.declaration == declaration) return array.begin;
  }
  return add(declaration, bytes, alignment, name);
}

void* SharedMemory::dynamic() {
  return declared(this, dynamic_bytes_, 16, "dynamic shared memory");
}

std::byte* SharedMemory::add(const void* declaration, std::size_t bytes, std::size_t alignment,
                             const char* name) {
  used_ = round_up(used_, alignment) + bytes;
  if (used_ > limit_) return nullptr;
  const std::size_t room = red_zone + bytes + red_zone;
  storage_.push_back(std::make_unique_for_overwrite<std::byte[]>(room + granule));
  std::byte* const base = storage_.back().get();
  const auto address = reinterpret_cast<std::uintptr_t>(base) + red_zone;
  std::byte* const begin = base + red_zone + (round_up(address, granule) - address);
  fill_red_zone(begin - red_zone, red_zone);
  fill_red_zone(begin + bytes, red_zone);
  fill_with(uninitialised_shared_pattern, begin, bytes);
  arrays_.push_back({declaration, name, begin, bytes});
  return begin;
}

std::string SharedMemory::damaged() const {
  for (const Array& array : arrays_) {
    if (!is_red_zone(array.begin - red_zone, red_zone) ||
        !is_red_zone(array.begin + array.bytes, red_zone)) {
      return array.name;
    }
  }
  return {};
}

}  // namespace lockstep::emulation
