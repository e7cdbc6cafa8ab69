#include "train/parallel/peer_memory.h"

#include <fmt/format.h>

namespace lockstep::train {

nn::BufferSource peer_memory(comm::Communicator& communicator) {
  if (!communicator.capabilities().wants_addressable_memory) return {};
  return [&communicator](std::size_t bytes) {
    auto memory = communicator.addressable_memory(bytes);
    if (!memory)
      throw StartupError(
          fmt::format("backend {} gave no memory that its ranks can address, asked for {} bytes",
                      communicator.backend(), bytes));
    return Buffer(memory->local().data(), bytes, memory);
  };
}

Buffer peer_memory(comm::Communicator& communicator, Context& context, std::size_t bytes) {
  const nn::BufferSource source = peer_memory(communicator);
  return source ? source(bytes) : Buffer(context.allocator(), bytes);
}

}  // namespace lockstep::train
