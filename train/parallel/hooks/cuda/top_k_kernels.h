// Launchers of top_k. T is float or double.
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"
#include "train/parallel/hooks/top_k_bucket.h"

namespace lockstep::train {

// Bytes that a selection from `count` elements needs, from the beginning of an allocation.
std::size_t selection_scratch_bytes(std::int64_t count);

// rest[i] = gradients[i] + factor * before[i]. Then the k largest magnitudes (as floats; of equal
// ones the first, NaN above all) go to the message, in the order of their indices, and are 0 in
// `rest`. Where an element is not finite all values of the message are NaN. The same elements as on
// the CPU, in whichever order blocks run.
//
// Moves 7 * count elements: reads two and writes one, then reads it twice to find the threshold,
// once to count and once to take.
template <class T>
void launch_selection(const device::CudaStream& stream, const TopKBucket<T>& bucket,
                      const TopKMessage<T>& message, void* scratch);

// gradients[indices[i]] += values[i], for indices of the bucket.
template <class T>
void launch_add_message(const device::CudaStream& stream, const TopKMessage<T>& message,
                        const TopKBucket<T>& bucket);

}  // namespace lockstep::train
