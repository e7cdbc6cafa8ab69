// The CPU as a device: aligned host memory behind the caching allocator, an inline compute stream,
// communication streams that are threads.
#pragma once

#include <memory>

#include "framework/device/context.h"

namespace lockstep::device {

std::unique_ptr<Context> make_cpu_context(int threads = 1);

// Plain aligned host memory; process-wide and without state.
Allocator& host_allocator();

// A stream whose work runs on the calling thread inside enqueue().
std::unique_ptr<Stream> make_inline_stream();
// A stream whose work runs on a thread of its own. The destructor finishes what was enqueued.
std::unique_ptr<Stream> make_thread_stream(const std::string& name);

}  // namespace lockstep::device
