// Faults on request, for tests of what happens when things go wrong. Read from the environment:
//
//   TRAIN_FAULT="rank=3,step=5,at=before_allreduce,do=raise"
//
// `at` names the place, `do` is raise, nan, inf, flip, stall:SECONDS, exit:CODE or kill. Without
// `rank` it is every rank, without `step` every step. Several faults are separated by ';'. Each
// fault that strikes prints a line on stderr.
//
// Immutable, so usable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

enum class FaultPlace : std::uint8_t {
  start,             // before a rank makes itself known to the others
  read,              // reading a batch
  forward,           // before the forward pass
  before_allreduce,  // on the communication thread
  gradient,          // a gradient is complete, not yet averaged
  after_step,        // after the optimizer's update
  save,              // while a checkpoint is written
};
std::string_view name_of(FaultPlace place);

// What the caller of hit() has to do to its values; everything else hit() does itself.
enum class Damage : std::uint8_t { none, nan, inf, flip };

class FaultHook {
 public:
  static FaultHook from_environment();  // TRAIN_FAULT

  FaultHook() = default;  // never strikes
  // Throws ConfigError naming what it did not understand and what is known.
  explicit FaultHook(std::string_view faults);

  bool active() const { return !faults_.empty(); }

  // Whether a fault may strike this rank at `place` in some update.
  bool expects(int rank, FaultPlace place) const;

  // To be called at each place, with the number of the update in progress (0 before the first).
  // Stalls, exits, kills the process or throws if a fault says so: at `read` a DataError, at `save`
  // a CheckpointError, at `start` a StartupError, else an Error.
  Damage hit(int rank, std::int64_t step, FaultPlace place) const;

 private:
  enum class Deed : std::uint8_t { raise, nan, inf, flip, stall, exit, kill };
  struct Fault {
    std::optional<int> rank;
    std::optional<std::int64_t> step;
    FaultPlace place = FaultPlace::start;
    Deed deed = Deed::raise;
    double seconds = 0;  // of a stall
    int code = 0;        // of an exit
    std::string text;    // as written
  };

  static Fault parse(std::string_view text);
  static void parse_deed(std::string_view text, Fault& fault);

  std::vector<Fault> faults_;
};

}  // namespace lockstep::train
