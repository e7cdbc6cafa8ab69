// Memory of the emulated devices, and page-locked memory of the host.
//
// Each device has a range of addresses of its own. An allocation lies between red zones: poisoned
// for AddressSanitizer, and otherwise found written to after the kernel that did it. Fresh and
// freed memory is filled with a NaN of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::emulation {

inline constexpr int on_host = -1;  // as the device of page-locked memory

struct Allocation {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  int device = on_host;
  int imports = 0;  // how often it is open through IPC
  bool contains(const void* pointer, std::size_t count) const {
    const auto* const first = static_cast<const std::byte*>(pointer);
    return first >= begin && first + count <= begin + bytes;
  }
};

class MemoryMap {
 public:
  MemoryMap(int devices, std::size_t device_bytes);
  ~MemoryMap();
  MemoryMap(const MemoryMap&) = delete;
  MemoryMap& operator=(const MemoryMap&) = delete;

  // nullptr where the device has no room for it.
  void* allocate(int device, std::size_t bytes);
  // False where no allocation begins there.
  bool free(void* pointer);
  // The allocation that `pointer` lies in (or just behind: its end); nullptr for none.
  Allocation* find(const void* pointer);
  // Whether the pointer is in the memory of a device or of page-locked memory, allocated or not.
  std::optional<int> owner(const void* pointer) const;
  // What was written outside of allocations since the last call; empty for nothing.
  std::string damage();
  std::size_t bytes_in_use(int device) const { return arena(device).in_use; }
  std::size_t bytes_per_device() const { return device_bytes_; }
  std::size_t allocations() const { return allocations_.size(); }
  // Who may touch device memory from here on: nobody, everybody, or blocks of one device.
  void close() { set_accessible(0); }
  void open_all() { set_accessible(~std::uint64_t{0}); }
  void open_for(int device) { set_accessible(reach_[static_cast<std::size_t>(device)]); }
  // False where it was so already.
  bool set_peer_access(int device, int peer, bool allowed);
  // What device memory an address belongs to, in words; empty for none.
  std::string describe(const void* pointer) const;
  // Where the race detector sees that memory was freed before it is allocated again.
  const void* order() const { return &order_; }

 private:
  struct Arena {
    std::byte* begin = nullptr;
    std::size_t next = 0;  // where the search for room begins
    std::size_t in_use = 0;
  };

  void set_accessible(std::uint64_t devices);
  const Arena& arena(int device) const { return arenas_[static_cast<std::size_t>(device + 1)]; }
  std::byte* room_for(const Arena& arena, std::size_t room) const;

  std::size_t device_bytes_;
  std::size_t arena_bytes_;
  std::vector<Arena> arenas_;  // the host's first
  std::map<std::byte*, Allocation> allocations_;
  char order_ = 0;
  // A bit for each device: those whose pages may be touched, and those that ever had an allocation;
  // opening and closing the others would cost time only.
  std::uint64_t accessible_ = 0, used_ = 0;
  std::vector<std::uint64_t> reach_;
};

}  // namespace lockstep::emulation
