// Runs the tests of CUDA code on emulated GPUs: each test on a machine of its own, which must have
// found nothing wrong unless the test took the report. The seed is LOCKSTEP_EMULATION_SEED (1
// without) and one more in each repetition, so --gtest_repeat=20 tries twenty.
#include <gtest/gtest.h>

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
  void OnTestStart(const testing::TestInfo&) override {
    machine_ = std::make_unique<Machine>(options_);
  }
  void OnTestEnd(const testing::TestInfo&) override { machine_.reset(); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed()) std::printf("with emulation seed %lu\n", options_.seed);
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
