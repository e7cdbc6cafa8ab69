// Launchers of the collectives' kernels. `channels` blocks are launched, at most as many as the
// world's shape has; the same on all ranks.
#pragma once

#include "comm/ring/cuda/world.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::comm::ring::cuda {

void launch_ring(const device::CudaStream& stream, int channels, const World& world,
                 const Call& call, const RingPlan& plan);

// all_reduce of at most capacity_of() bytes (algorithm.h), in one shot or two.
void launch_low_latency(const device::CudaStream& stream, int channels, const World& world,
                        const Call& call, bool twice);

// The call's data and receive are cut into a slice for each rank.
void launch_all_to_all(const device::CudaStream& stream, int channels, const World& world,
                       const Call& call);
// Barrier, and the meeting before a split.
void launch_meeting(const device::CudaStream& stream, const World& world, const Call& call);
// Elements of a slice that a channel moves at a time.
std::int64_t all_to_all_piece(const Layout& layout, DType dtype);

// This rank's word of `words` comes to say whether anything has failed in `world`; the others' are
// emptied.
void launch_vouch(const device::CudaStream& stream, const World& world, const VoucherWords& words);
// `world` fails in `call` unless all words are as they must be, and where it is aborted.
void launch_require_vouched(const device::CudaStream& stream, const World& world,
                            const VoucherWords& words, const Signature& call);

// Writes the global timer to the host.
void launch_clock(const device::CudaStream& stream, std::uint64_t* now);

// Writes it to the control word's marks.
void launch_mark(const device::CudaStream& stream, const World& world);

// Loads the kernels of a file, so that no first launch waits for the device while a collective is
// under way there. Returns how many blocks of the largest the device holds.
int load_ring_kernels(const device::CudaStream& stream, unsigned threads);
int load_low_latency_kernels(const device::CudaStream& stream, unsigned threads);
int load_meeting_kernels(const device::CudaStream& stream, unsigned threads);
void load_voucher_kernels(const device::CudaStream& stream);

}  // namespace lockstep::comm::ring::cuda
