#include "train/parallel/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "framework/base/hash.h"
#include "train/parallel/gather.h"
#include "train/parallel/rank_votes.h"

namespace lockstep::train {
namespace {

std::string described(const Tensor& tensor) {
  return fmt::format("{} {}", base::name_of(tensor.dtype()), base::to_string(tensor.shape()));
}

std::string_view first_line(std::string_view text) {
  return text.empty() ? "nothing" : text.substr(0, text.find('\n'));
}

// From the line on in which the texts first differ.
std::string_view from_difference(std::string_view text, std::string_view other) {
  const auto at = std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first;
  const auto same = static_cast<std::size_t>(at - text.begin());
  const std::size_t line = same == 0 ? 0 : text.rfind('\n', same - 1) + 1;  // npos + 1 is 0
  return text.substr(line);
}

}  // namespace

std::string describe_model(const nn::Module& model) {
  std::string lines;
  for (const auto& parameter : model.named_parameters())
    lines +=
        fmt::format("parameter {}: {}\n", parameter.name, described(parameter.variable.value()));
  for (const auto& buffer : model.named_buffers())
    lines += fmt::format("buffer {}: {}\n", buffer.name, described(buffer.tensor));
  return lines;
}

void require_agreement(Context& context, comm::Communicator& communicator, const std::string& text,
                       Stream& stream) {
  const std::array hash{static_cast<std::int64_t>(base::hash64(text))};
  const Votes votes = count_votes(gather<std::int64_t>(context, communicator, hash, stream));
  if (votes.odd.empty()) return;
  const auto texts = gather_texts(context, communicator, text, stream);
  const int odd = votes.odd.front();
  const std::string& theirs = texts[static_cast<std::size_t>(odd)];
  const std::string& ours = texts[static_cast<std::size_t>(votes.reference)];
  throw RankError(odd,
                  fmt::format("the ranks were not started alike: rank {} has \"{}\" where rank "
                              "{} has \"{}\"",
                              odd, first_line(from_difference(theirs, ours)), votes.reference,
                              first_line(from_difference(ours, theirs))));
}

}  // namespace lockstep::train
