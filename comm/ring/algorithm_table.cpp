#include "comm/ring/algorithm_table.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/units.h"

namespace lockstep::comm::ring {

namespace {

constexpr std::array<std::pair<std::string_view, Algorithm>, 5> names = {{
    {"ring", Algorithm::ring},
    {"two_shot", Algorithm::two_shot},
    {"one_shot", Algorithm::one_shot},
    {"halving_doubling", Algorithm::halving_doubling},
    {"reduce_broadcast", Algorithm::reduce_broadcast},
}};

constexpr std::size_t any_size = std::numeric_limits<std::size_t>::max();

std::optional<Algorithm> algorithm_from(std::string_view name) {
  for (const auto& [known, algorithm] : names)
    if (known == name) return algorithm;
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  for (const auto& [name, known] : names)
    if (known == algorithm) return name;
  __builtin_unreachable();
}

std::vector<std::string_view> algorithm_names() {
  std::vector<std::string_view> all;
  for (const auto& [name, algorithm] : names) all.push_back(name);
  return all;
}

AlgorithmTable AlgorithmTable::parse(std::string_view text) {
  const auto refuse = [&](std::string_view found, const std::string& expected) -> ConfigError {
    return ConfigError(
        fmt::format("algorithms \"{}\": found \"{}\", expected {}", text, found, expected));
  };
  AlgorithmTable table;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = trimmed(rest.substr(0, comma));
    const std::size_t sign = item.find("<=");
    const auto algorithm = algorithm_from(trimmed(item.substr(0, sign)));
    if (!algorithm)
      throw refuse(item, fmt::format("one of {}", fmt::join(algorithm_names(), ", ")));
    Row row{any_size, *algorithm};
    if (sign != item.npos) {
      try {
        row.up_to = base::parse_bytes(std::string(trimmed(item.substr(sign + 2))));
      } catch (const ConfigError&) {
        throw refuse(item, "a size such as 16KiB after <=");
      }
    }
    if (!table.rows_.empty() && row.up_to <= table.rows_.back().up_to)
      throw refuse(item, "sizes that ascend");
    table.rows_.push_back(row);
    if (comma == rest.npos) break;
    rest = rest.substr(comma + 1);
  }
  if (table.rows_.back().up_to != any_size)
    throw refuse(text, "a last algorithm without a size, for all that is larger");
  return table;
}

const AlgorithmTable& AlgorithmTable::built_in(bool crowded) {
  static const AlgorithmTable roomy = parse("one_shot<=2KiB, two_shot");
  static const AlgorithmTable tight = parse("two_shot");
  return crowded ? tight : roomy;
}

Algorithm AlgorithmTable::choose(std::size_t bytes) const {
  for (const Row& row : rows_)
    if (bytes <= row.up_to) return row.algorithm;
  return rows_.back().algorithm;
}

}  // namespace lockstep::comm::ring
