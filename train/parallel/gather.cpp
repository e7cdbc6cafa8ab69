#include "train/parallel/gather.h"

#include <array>
#include <cstdint>

namespace lockstep::train {

std::vector<std::string> gather_texts(Context& context, comm::Communicator& communicator,
                                      const std::string& text, Stream& stream) {
  const std::array length{static_cast<std::int64_t>(text.size())};
  const auto lengths = gather<std::int64_t>(context, communicator, length, stream);
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::vector<std::uint8_t> padded(text.begin(), text.end());
  padded.resize(longest);
  const auto bytes = gather<std::uint8_t>(context, communicator, padded, stream);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(rank * longest);
    texts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(lengths[rank]));
  }
  return texts;
}

}  // namespace lockstep::train
