// How much memory this process may still take from the host.
#pragma once

#include <cstdint>

namespace lockstep::comm {

// The least of what the host has available (swap included) and of what the memory cgroups of this
// process leave. Where the kernel does not say, that part sets no limit. Bytes.
std::uint64_t available_memory();

// RLIMIT_FSIZE, which holds for files in memory too. Bytes.
std::uint64_t file_size_limit();

}  // namespace lockstep::comm
