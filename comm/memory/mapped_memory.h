// MappedMemory: memory for all ranks of a group, mapped into this process.
//
// For threads it is private memory; for processes a memfd, an anonymous file in memory that is
// passed on as a descriptor: it has no name, so nothing is left behind by a crash. Pages are zero.
#pragma once

#include <cstddef>
#include <span>

#include "comm/store/descriptor.h"

namespace lockstep::comm {

class MappedMemory {
 public:
  // StartupError naming needed and available bytes where the host cannot give them.
  static MappedMemory make_private(std::size_t bytes);
  static MappedMemory make_shared(std::size_t bytes);
  // Maps what another process made with make_shared(). StartupError if it is of another size or
  // could still shrink, which would turn an access into a bus error.
  static MappedMemory map_shared(Descriptor file, std::size_t bytes);

  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&&) = delete;
  ~MappedMemory();

  std::span<std::byte> bytes() const { return bytes_; }
  int descriptor() const { return file_.get(); }  // -1 for private memory

  // Makes the pages of the range real, on the memory node of the calling thread. `offset` is a
  // multiple of the page size. StartupError where the host cannot give them.
  void reserve(std::size_t offset, std::size_t bytes) const;
  // Fills in this process's page table for pages that others have reserved; a matter of speed only.
  void prefault() const;
  // The mapping needs the descriptor no longer.
  void close_descriptor() { file_.reset(); }

 private:
  MappedMemory(Descriptor file, std::size_t bytes);

  Descriptor file_;
  std::span<std::byte> bytes_;
};

std::size_t page_size();

}  // namespace lockstep::comm
