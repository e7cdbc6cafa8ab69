// SymmetricBuffer: memory that every rank of a host allocates in the same size and that every rank
// of the host can address.
//
// Ranks may be threads of one process (plain memory), processes (anonymous shared memory, a memfd
// passed over a Unix socket: nothing with a name is left behind by a crash), later processes with a
// GPU each.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::comm {

class SymmetricBuffer {
 public:
  // `parts[r]` is rank r's part as seen from here; `owner` keeps the mapping.
  SymmetricBuffer(int rank, std::vector<std::span<std::byte>> parts, std::shared_ptr<void> owner)
      : rank_(rank), parts_(std::move(parts)), owner_(std::move(owner)) {}

  std::span<std::byte> local() const { return parts_[static_cast<std::size_t>(rank_)]; }
  std::span<std::byte> part(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }
  std::size_t bytes() const { return local().size(); }
  int size() const { return static_cast<int>(parts_.size()); }
  // Whether [data, data + bytes) lies in this rank's part.
  bool contains(const void* data, std::size_t bytes) const;

 private:
  int rank_;
  std::vector<std::span<std::byte>> parts_;
  std::shared_ptr<void> owner_;
};

}  // namespace lockstep::comm
