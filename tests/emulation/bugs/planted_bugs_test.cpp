// Every planted bug is found, and the same program without it is not accused of anything.
//
// Some bugs give wrong numbers under some seeds only, and one gives right ones always on this
// processor: those are what the race detector is for, which finds them under every seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

namespace lockstep::emulation {
namespace {

using ::testing::HasSubstr;

enum class Build { plain, thread, address };
#if defined(__SANITIZE_THREAD__)
constexpr Build build = Build::thread;
#elif defined(__SANITIZE_ADDRESS__)
constexpr Build build = Build::address;
#else
constexpr Build build = Build::plain;
#endif

constexpr int seeds = 6;

struct Expected {
  const char* bug;
  int noticed;            // under how many of the seeds at least, by the emulation alone
  const char* emulation;  // what it says then; empty where wrong numbers are all there is
  bool race = false;      // ThreadSanitizer reports it under every seed
  bool address = false;   // AddressSanitizer does
};

const Expected all[] = {
    {"missing_barrier", seeds, "before it was written", true},
    {"out_of_bounds", seeds, "written behind the 256 bytes", false, true},
    {"shared_out_of_bounds", seeds, "written past the bounds of tile", false, true},
    {"divergent_barrier", seeds, "divergent barrier"},
    {"wrong_mask", seeds, "warp mismatch"},
    {"misaligned", seeds, "is not aligned to the 16 bytes"},
    {"uninitialised_memory", seeds, ""},
    {"use_after_free", seeds, "", false, true},
    {"too_much_shared", seeds, "does not fit the block's"},
    {"relaxed_instead_of_release", 0, "", true},
    {"no_exit_handshake", 1, "", true},
    {"off_by_one_wait", 1, "", true},
    {"lost_signal", 1, "everyone waits"},
    {"too_many_blocks", seeds, "wait for room on a multiprocessor"},
    {"absent_peer", seeds, ""},
    {"no_peer_access", seeds, "was not given access"},
    {"missing_event", 1, "", true},
    {"unrecorded_event", seeds, "never recorded"},
    {"host_reads_too_early", 1, "", true},
    {"host_reuses_too_early", 1, "", true},
    {"copy_too_long", seeds, "are not within an allocation"},
    {"host_touches_device_memory", seeds, "host code touches"},
    {"free_while_waited_for", seeds, "in cudaFree"},
    {"load_while_waited_for", 1, "the first launch of"},
    {"missing_join", seeds, "cudaErrorStreamCaptureUnjoined"},
    {"missing_edge", 1, "", true},
    {"stale_argument", seeds, ""},
    {"memory_reused_under_graph", seeds, ""},
    {"host_waits_in_capture", seeds, "cudaErrorStreamCaptureInvalidated"},
    {"ring_relaxed_signal", 0, "", true},
    {"ring_no_signal", seeds, ""},
    {"ring_off_by_one_wait", 1, "", true},
    {"ring_overwrites_slots", 1, "", true},
    {"ring_no_exit_handshake", 1, "", true},
    {"ring_without_access", seeds, ""},
};

struct Outcome {
  bool noticed = false;
  std::string text;
};

Outcome run(const char* bug, const char* with, int seed) {
  const std::string command =
      std::string(PLANTED_BUGS) + " " + bug + " " + with + " " + std::to_string(seed) + " 2>&1";
  std::FILE* const output = popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> piece;
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), output)) {
    outcome.text.append(piece.data(), count);
  }
  const int status = pclose(output);
  outcome.noticed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  EXPECT_FALSE(WIFEXITED(status) && (WEXITSTATUS(status) == 2 || WEXITSTATUS(status) == 127))
      << outcome.text;
  return outcome;
}

class PlantedBug : public testing::TestWithParam<Expected> {};

TEST_P(PlantedBug, IsFound) {
  int noticed = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Outcome outcome = run(GetParam().bug, "bug", seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    noticed += outcome.noticed ? 1 : 0;
    if (build == Build::thread && GetParam().race) {
      EXPECT_THAT(outcome.text, HasSubstr("ThreadSanitizer: data race"));
    } else if (build == Build::address && GetParam().address) {
      EXPECT_THAT(outcome.text, HasSubstr("AddressSanitizer: use-after-poison"));
    } else if (build == Build::plain && outcome.noticed) {
      EXPECT_THAT(outcome.text, HasSubstr(GetParam().emulation));
    }
  }
  EXPECT_GE(noticed, build == Build::thread && GetParam().race ? seeds : GetParam().noticed);
}

TEST_P(PlantedBug, IsNotFoundWhereItIsNot) {
  for (int seed = 1; seed <= seeds; ++seed) {
    const Outcome outcome = run(GetParam().bug, "none", seed);
    EXPECT_FALSE(outcome.noticed) << "seed " << seed << ": " << outcome.text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBug, testing::ValuesIn(all),
                         [](const auto& test) { return std::string(test.param.bug); });

}  // namespace
}  // namespace lockstep::emulation
