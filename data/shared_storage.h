// SharedStorage: memory that the workers of one host share, as the loader sees it. A program with
// several workers implements it over its shared memory; PrivateStorage serves a worker that is
// alone.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::data {

// Used by the thread that makes the loader, apart from check(). Must outlive the loaders made on
// it.
class SharedStorage {
 public:
  virtual ~SharedStorage() = default;

  virtual int rank() const = 0;  // among the workers of this host
  virtual int size() const = 0;
  // The same memory for each worker of the host, filled with zeros, aligned to a cache line.
  // Collective: every worker asks for the same sizes in the same order. Lives as long as this
  // object.
  virtual std::span<std::byte> allocate(std::size_t bytes) = 0;
  // Returns when all workers of the host are here; what they wrote before is seen after.
  virtual void barrier() = 0;
  // Throws when the run was aborted (another worker was lost or failed); called in waits, from any
  // thread.
  virtual void check() const = 0;
};

class PrivateStorage final : public SharedStorage {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::span<std::byte> allocate(std::size_t bytes) override;
  void barrier() override {}
  void check() const override {}

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<std::unique_ptr<Line[]>> blocks_;
};

}  // namespace lockstep::data
