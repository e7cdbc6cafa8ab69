#include "framework/device/context.h"

#include "framework/base/error.h"
#include "framework/device/graph.h"

namespace lockstep::device {

std::unique_ptr<Graph> Context::capture(std::span<Stream* const>, const std::function<void()>&) {
  throw UsageError("there are no graphs on " + to_string(device()));
}

void Context::upload(void* to, const void* from, std::size_t bytes) {
  copy(to, from, bytes, compute_stream());
  compute_stream().synchronize();
}

void Context::download(void* to, const void* from, std::size_t bytes) {
  copy(to, from, bytes, compute_stream());
  compute_stream().synchronize();
}

}  // namespace lockstep::device
