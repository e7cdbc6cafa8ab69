// The project's own collectives between ranks of one host, as a Communicator.
//
// Algorithms of all_reduce (comm/schedule/schedule.h): "ring" (reduce-scatter, then all-gather
// around a ring, chunked and pipelined), "two_shot" (each rank reduces its slice straight from all
// peers and writes it to all peers, one pass over memory), "one_shot" (each rank reduces everything
// itself), "halving_doubling" and, to compare with, "reduce_broadcast" (all to one rank, then out
// again). "auto" chooses by size and world size from a built-in table.
// Memory from addressable_memory() is read and written in place; other memory is staged through it
// in chunks. bfloat16 and float16 are reduced in float.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "comm/memory/group.h"
#include "framework/device/cuda/peer_link.h"

namespace lockstep::comm {

// Of an all_reduce between CPUs, rounded from benchmarks/README.md.
inline constexpr CostModel ring_cost{.latency = 50e-6, .bytes_per_second = 8e9};

// Takes the group; collective.
std::unique_ptr<Communicator> make_ring_communicator(std::unique_ptr<Group> group,
                                                     const CommunicatorOptions& options);

// The same between GPUs of one host, several ranks of which may share one: CUDA kernels, enqueued
// on streams of cuda:`device` (comm/ring/cuda). "ring", "one_shot" and "two_shot"; "auto" chooses
// from a table of its own. Data is any memory of that GPU; it travels through memory of the
// communicator's, so gradients need not be addressable. StartupError where GPUs cannot address each
// other's memory, see gpus_reach_each_other(), and in a build without CUDA.
std::unique_ptr<Communicator> make_cuda_ring_communicator(std::unique_ptr<Group> group, int device,
                                                          const CommunicatorOptions& options);

// What an all_reduce of so many bytes between GPUs is done by, where `asked` is comm.algorithm.
std::string cuda_ring_algorithm(const std::string& asked, std::size_t bytes, int ranks);

// The slowest of those that join these GPUs, as this process numbers them. Initialises none of
// them.
device::PeerLink slowest_link(std::span<const int> devices);
// What an all_reduce over such links is taken to cost.
constexpr CostModel cost_between_gpus(device::PeerLink slowest) {
  return slowest == device::PeerLink::pcie ? pcie_cost : nvlink_cost;
}

// Whether each of these GPUs, as this process numbers them, can address the memory of all others.
// Initialises none of them.
bool gpus_reach_each_other(std::span<const int> devices);

}  // namespace lockstep::comm
