// What an allocator throws when there is no more: how much was asked for, and of what.
#pragma once

#include <cstddef>
#include <new>
#include <string>

namespace lockstep::device {

class OutOfMemory final : public std::bad_alloc {
 public:
  // `memory`: "the memory of cuda:1".
  OutOfMemory(std::size_t bytes, const std::string& memory);
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

}  // namespace lockstep::device
