#include "tests/emulation/kernel_interface.h"

#include <fmt/format.h>

#include <cstring>

#include "tests/emulation/block.h"
#include "tests/emulation/machine.h"
#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {

const char* name_of(WarpKind kind) {
  static constexpr const char* names[] = {"__syncwarp",       "__ballot_sync",  "__any_sync",
                                          "__all_sync",       "__shfl_sync",    "__shfl_up_sync",
                                          "__shfl_down_sync", "__shfl_xor_sync"};
  return names[static_cast<std::size_t>(kind)];
}

void* static_shared(const void* declaration, std::size_t bytes, std::size_t alignment,
                    const char* name) {
  const Inside inside;
  return Block::running().block->static_shared(declaration, bytes, alignment, name);
}

void* dynamic_shared() {
  const Inside inside;
  return Block::running().block->dynamic_shared();
}

int barrier(BarrierKind kind, bool predicate, Place place) {
  const Inside inside;
  return Block::running().block->barrier(kind, predicate, place);
}

std::uint64_t warp(WarpKind kind, std::uint32_t mask, std::uint64_t value, int selector, int width,
                   Place place) {
  const Inside inside;
  return Block::running().block->warp(kind, mask, value, selector, width, place);
}

void may_switch() {
  const Inside inside;
  Block::running().block->may_switch();
}

void require_alignment(const void* address, std::size_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment == 0) return;
  const Inside inside;
  Block::running().block->fail(
      Fault::misaligned,
      fmt::format("{} is not aligned to the {} bytes of the access", address, alignment), {});
}

std::uint64_t global_timer() {
  const Inside inside;
  return Machine::current().devices().now();
}

void sleep(std::uint32_t nanoseconds, Place place) {
  const Inside inside;
  CudaThread& thread = Block::running();
  thread.word = nullptr;
  thread.abort_word = nullptr;
  thread.deadline = Machine::current().devices().now() + nanoseconds;
  thread.block->park(thread, place);
}

void park(const void* word, const void* seen, std::size_t bytes, const std::uint32_t* abort_word,
          std::uint64_t deadline, Place place) {
  const Inside inside;
  CudaThread& thread = Block::running();
  thread.word = word;
  thread.seen = 0;
  std::memcpy(&thread.seen, seen, bytes);
  thread.word_bytes = bytes;
  thread.abort_word = abort_word;
  thread.deadline = deadline;
  thread.block->park(thread, place);
}

void trap(Place place) {
  const Inside inside;
  Block::running().block->fail(Fault::trap, "__trap()", place);
}

}  // namespace lockstep::emulation
