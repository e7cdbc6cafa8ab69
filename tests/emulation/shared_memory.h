// The shared memory of one block: arrays laid out as they are first used, each between red zones,
// all filled with a NaN that says where it comes from.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::emulation {

class SharedMemory {
 public:
  SharedMemory(std::size_t dynamic_bytes, std::size_t limit)
      : dynamic_bytes_(dynamic_bytes), limit_(limit) {}
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // nullptr when the block's limit is exceeded.
  void* declared(const void* declaration, std::size_t bytes, std::size_t alignment,
                 const char* name);
  void* dynamic();
  // The name of an array behind or before which something was written; empty where none was.
  std::string damaged() const;

 private:
  struct Array {
    const void* declaration = nullptr;  // nullptr for the dynamic one
    const char* name = "";
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };

  std::byte* add(const void* declaration, std::size_t bytes, std::size_t alignment,
                 const char* name);

  std::size_t dynamic_bytes_;
  std::size_t limit_;
  std::size_t used_ = 0;
  std::vector<Array> arrays_;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
};

}  // namespace lockstep::emulation
