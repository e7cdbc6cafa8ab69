// Runs the tests of CUDA code on emulated GPUs, each on a machine of its own. What the machine
// found wrong fails the test, unless the test took the report; so does device memory, or a stream
// or event, that is left behind. The seed is LOCKSTEP_EMULATION_SEED (1 without) and one more in
// each repetition, so --gtest_repeat=20 tries twenty. Suites whose names say WithoutDriver or
// WithoutPeerAccess have a machine like that.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/emulation/machine.h"

namespace lockstep::emulation {
namespace {

class MachineForEachTest final : public testing::EmptyTestEventListener {
 public:
  void OnTestIterationStart(const testing::UnitTest&, int iteration) override {
    const char* const seed = std::getenv("LOCKSTEP_EMULATION_SEED");
    options_.seed = (seed != nullptr ? std::stoull(seed) : 1) + static_cast<unsigned>(iteration);
  }
  void OnTestStart(const testing::TestInfo& info) override {
    const std::string suite = info.test_suite_name();
    MachineOptions options = options_;
    options.driver = suite.find("WithoutDriver") == std::string::npos;
    options.peer_access = suite.find("WithoutPeerAccess") == std::string::npos;
    machine_ = std::make_unique<Machine>(options);
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    if (machine_->has_untaken_report()) {
      ADD_FAILURE() << machine_->report().text;
    } else if (!machine_->failed() && info.result()->Passed() && !machine_->leaks().empty()) {
      ADD_FAILURE() << "not freed: " << machine_->leaks();
    }
    if (info.result()->Failed()) {
      std::printf("this was with LOCKSTEP_EMULATION_SEED=%" PRIu64 "\n", options_.seed);
    }
    machine_.reset();
  }

 private:
  MachineOptions options_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace
}  // namespace lockstep::emulation

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(
      new lockstep::emulation::MachineForEachTest);  // GoogleTest owns it
  return RUN_ALL_TESTS();
}
