#include "framework/device/context.h"

namespace lockstep::device {

void Context::upload(void* to, const void* from, std::size_t bytes) {
  copy(to, from, bytes, compute_stream());
  compute_stream().synchronize();
}

void Context::download(void* to, const void* from, std::size_t bytes) {
  copy(to, from, bytes, compute_stream());
  compute_stream().synchronize();
}

}  // namespace lockstep::device
