// The pieces under a group: mapped memory, limits of the host, symmetric buffers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <limits>

#include "comm/memory/host_memory.h"
#include "comm/memory/mapped_memory.h"
#include "comm/memory/symmetric_buffer.h"
#include "framework/base/error.h"
#include "tests/support/process_ranks.h"

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostMemoryTest, KnowsALimit) {
  const std::uint64_t available = available_memory();
  EXPECT_GT(available, std::uint64_t{1} << 20);
  EXPECT_LT(available, std::uint64_t{1} << 50);
}

TEST(MappedMemoryTest, SharedMemoryIsAFileWithoutANameThatCannotShrink) {
  const auto memory = MappedMemory::make_shared(3 * page_size());
  EXPECT_NE(fcntl(memory.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(ftruncate(memory.descriptor(), 0), 0);
  struct stat status {};
  ASSERT_EQ(fstat(memory.descriptor(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);

  EXPECT_EQ(status.st_blocks, 0) << "not reserved yet";
  memory.reserve(page_size(), 2 * page_size());
  ASSERT_EQ(fstat(memory.descriptor(), &status), 0);
  EXPECT_EQ(static_cast<std::size_t>(status.st_blocks) * 512, 2 * page_size());
}

TEST(MappedMemoryTest, TwoMappingsShareTheirBytes) {
  const auto first = MappedMemory::make_shared(page_size());
  const auto second = MappedMemory::map_shared(Descriptor(dup(first.descriptor())), page_size());
  ASSERT_NE(first.bytes().data(), second.bytes().data());
  first.bytes()[17] = std::byte{42};
  EXPECT_EQ(second.bytes()[17], std::byte{42});
}

TEST(MappedMemoryTest, RefusesMemoryThatCouldEndInABusError) {
  const auto memory = MappedMemory::make_shared(page_size());
  EXPECT_THAT(
      [&] { MappedMemory::map_shared(Descriptor(dup(memory.descriptor())), 2 * page_size()); },
      ThrowsMessage<StartupError>(HasSubstr("expected " + std::to_string(2 * page_size()))));
  Descriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.get(), static_cast<off_t>(page_size())), 0);
  EXPECT_THAT([&] { MappedMemory::map_shared(std::move(unsealed), page_size()); },
              ThrowsMessage<StartupError>(HasSubstr("not sealed")));
}

// In processes of their own, which the limit and the signal would end.
TEST(MappedMemoryTest, AFileSizeLimitIsAnErrorAndNoSignal) {
  tests::run_as_processes(1, [](int, Store&) {
    const rlimit limit{1 << 20, RLIM_INFINITY};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_EQ(file_size_limit(), 1u << 20);
    EXPECT_THAT([] { MappedMemory::make_shared((1 << 20) + 1); },
                ThrowsMessage<StartupError>(HasSubstr("available 1048576 bytes")));
    EXPECT_EQ(MappedMemory::make_shared(1 << 20).bytes().size(), 1u << 20);
    EXPECT_EQ(MappedMemory::make_private(1 << 21).bytes().size(), 1u << 21) << "no file";
  });
}

TEST(SymmetricBufferTest, ContainsOnlyItsOwnPart) {
  std::vector<std::byte> memory(30);
  const std::span<std::byte> all(memory);
  const SymmetricBuffer buffer(1, {all.subspan(0, 10), all.subspan(10, 10), all.subspan(20, 10)},
                               nullptr);
  EXPECT_EQ(buffer.size(), 3);
  EXPECT_EQ(buffer.bytes(), 10u);
  const std::byte* own = memory.data() + 10;
  EXPECT_TRUE(buffer.contains(own, 10));
  EXPECT_TRUE(buffer.contains(own + 3, 7));
  EXPECT_TRUE(buffer.contains(own + 10, 0));
  EXPECT_FALSE(buffer.contains(own - 1, 5));
  EXPECT_FALSE(buffer.contains(own + 3, 8));
  EXPECT_FALSE(buffer.contains(own + 11, 0));
  EXPECT_FALSE(buffer.contains(own + 1, std::numeric_limits<std::size_t>::max()));
}

}  // namespace
}  // namespace lockstep::comm
