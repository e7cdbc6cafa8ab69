// Small collectives on the host: what every rank has to say. They wait for the result.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "train/parallel/host_values.h"

namespace lockstep::train {

// Collective: `values` of every rank, rank by rank; as many on each.
template <class T>
std::vector<T> gather(Context& context, comm::Communicator& communicator, std::span<const T> values,
                      Stream& stream) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const HostValues<T> all(context, values.size() * static_cast<std::size_t>(communicator.size()));
  std::copy(values.begin(), values.end(),
            all.values().begin() + static_cast<std::ptrdiff_t>(rank * values.size()));
  communicator.all_gather(all.range(), stream).wait();
  return {all.values().begin(), all.values().end()};
}

// Collective: the text of every rank, of any length.
std::vector<std::string> gather_texts(Context& context, comm::Communicator& communicator,
                                      const std::string& text, Stream& stream);

}  // namespace lockstep::train
