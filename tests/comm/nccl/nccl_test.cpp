#include "comm/nccl/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t id_bytes = 128;

std::string error_of(const NcclPlace& place, const CommunicatorOptions& options = {}) {
  const auto store = make_memory_store();
  try {
    make_nccl_communicator(*store, place, options);
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Nccl, MakesAnIdWithoutAGpu) {
  if (!has_nccl()) GTEST_SKIP() << "NCCL is not in this build";
  std::string first;
  try {
    first = make_nccl_id();
  } catch (const StartupError& error) {
    GTEST_SKIP() << error.what();  // built here, but the library is not installed
  }
  EXPECT_EQ(first.size(), id_bytes);
  EXPECT_NE(first, make_nccl_id());
}

TEST(Nccl, SaysWhichPieceIsMissing) {
  const Device gpu{DeviceKind::cuda, 0};
  if (!has_nccl()) {
    EXPECT_THAT(error_of({.device = gpu, .prefix = "p", .interface = {}}),
                HasSubstr("built without NCCL"));
    return;
  }
  EXPECT_THAT(error_of({.device = {}, .prefix = "p", .interface = {}}), HasSubstr("on the CPU"));
  EXPECT_THAT(error_of({.device = gpu, .prefix = "p", .interface = {}}, {.algorithm = "bcube"}),
              HasSubstr("comm.algorithm"));
  if (missing_nccl().empty()) GTEST_SKIP() << "this machine has GPUs";
  EXPECT_THAT(error_of({.device = gpu, .prefix = "p", .interface = {}}),
              ::testing::AnyOf(HasSubstr("there is no GPU"), HasSubstr("library is missing")));
}

}  // namespace
}  // namespace lockstep::comm
