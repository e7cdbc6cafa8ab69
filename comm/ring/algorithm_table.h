// AlgorithmTable: which algorithm an all_reduce of so many bytes takes. Written as text,
// "one_shot<=16KiB, two_shot": each algorithm up to a size, the last one for all that is larger.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm::ring {

enum class Algorithm : std::uint8_t {
  one_shot,
  two_shot,
  ring,
  halving_doubling,
  reduce_broadcast
};
std::string_view name_of(Algorithm algorithm);

class AlgorithmTable {
 public:
  // Throws ConfigError saying what was found and expected: an unknown algorithm, a size that is not
  // one, sizes that do not ascend, an algorithm after that for all sizes.
  static AlgorithmTable parse(std::string_view text);
  // Measured (benchmarks/README.md): a second round costs less than reading all of the peers' data
  // from 4 KiB on; and where there are more ranks than cores ("crowded"), one rank that works for
  // all saves the others to be woken for it.
  static const AlgorithmTable& built_in(bool crowded);

  Algorithm choose(std::size_t bytes) const;

 private:
  struct Row {
    std::size_t up_to = 0;  // bytes
    Algorithm algorithm = Algorithm::two_shot;
  };
  std::vector<Row> rows_;  // ascending, the last one for all sizes
};

// The names of all, without "auto".
std::vector<std::string_view> algorithm_names();

}  // namespace lockstep::comm::ring
