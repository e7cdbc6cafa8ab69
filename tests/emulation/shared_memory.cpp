#include "tests/emulation/shared_memory.h"

#include <algorithm>
#include <cstring>

#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

constexpr std::size_t red_zone = 64;
constexpr std::size_t granule = 128;  // arrays begin at multiples of it
constexpr auto canary = std::byte{0xC5};

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

bool all_canary(const std::byte* begin, std::size_t bytes) {
  return std::all_of(begin, begin + bytes, [](std::byte b) { return b == canary; });
}

}  // namespace

void fill_with(std::uint16_t pattern, void* memory, std::size_t bytes) {
  auto* const begin = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i + 1 < bytes; i += 2) std::memcpy(begin + i, &pattern, 2);
  if (bytes % 2 != 0) begin[bytes - 1] = std::byte{0xFF};
}

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
  std::memset(begin - red_zone, static_cast<int>(canary), red_zone);
  std::memset(begin + bytes, static_cast<int>(canary), red_zone);
  fill_with(uninitialised_shared_pattern, begin, bytes);
  poison(begin - red_zone, red_zone);
  poison(begin + bytes, red_zone);
  arrays_.push_back({declaration, name, begin, bytes});
  return begin;
}

std::string SharedMemory::damaged() const {
  for (const Array& array : arrays_) {
    if (!all_canary(array.begin - red_zone, red_zone) ||
        !all_canary(array.begin + array.bytes, red_zone)) {
      return array.name;
    }
  }
  return {};
}

}  // namespace lockstep::emulation
