#include "comm/memory/mapped_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include "comm/memory/host_memory.h"
#include "framework/base/error.h"
#include "framework/base/units.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t huge_page_size = std::size_t{2} << 20;

StartupError shortage(std::size_t bytes, std::uint64_t available, const std::string& reason) {
  return StartupError(fmt::format(
      "too little memory for the workers: needs {} bytes ({}), available {} bytes ({}), {}", bytes,
      base::format_bytes(bytes), available, base::format_bytes(available), reason));
}

// The kernel refused `bytes`. Takes `error` first, before asking for what is available changes
// errno.
StartupError refused(int error, std::size_t bytes, bool is_file) {
  const std::uint64_t available = available_memory();
  return shortage(bytes, is_file ? std::min(available, file_size_limit()) : available,
                  std::strerror(error));
}

// Before anything is taken: beyond the limit of a cgroup the kernel would kill a process rather
// than return an error.
void check_available(std::size_t bytes, std::uint64_t limit, const std::string& reason) {
  if (bytes > limit) throw shortage(bytes, limit, reason);
}

// While it lives, a file that would grow over RLIMIT_FSIZE is an error of the call alone: the
// SIGXFSZ that goes with it, which would end the process, is held back and dropped. Changes this
// thread only.
class FileSizeSignalBlock {
 public:
  FileSizeSignalBlock() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalBlock() {
    if (sigismember(&before_, SIGXFSZ) == 0) {
      const timespec at_once{};
      while (sigtimedwait(&signal_, nullptr, &at_once) >= 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

 private:
  sigset_t signal_{};
  sigset_t before_{};
};

std::span<std::byte> map(int fd, std::size_t bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (data == MAP_FAILED) throw refused(errno, bytes, fd >= 0);
  // Where the kernel has none for this kind of memory, nothing is lost.
  if (bytes >= huge_page_size) madvise(data, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(data), bytes};
}

}  // namespace

MappedMemory::MappedMemory(Descriptor file, std::size_t bytes)
    : file_(std::move(file)), bytes_(map(file_.get(), bytes)) {}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : file_(std::move(other.file_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedMemory::~MappedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

MappedMemory MappedMemory::make_private(std::size_t bytes) {
  check_available(bytes, available_memory(), "the memory left on this host");
  return {Descriptor(), bytes};
}

MappedMemory MappedMemory::make_shared(std::size_t bytes) {
  check_available(bytes, file_size_limit(), "the limit on file sizes (RLIMIT_FSIZE, ulimit -f)");
  check_available(bytes, available_memory(), "the memory left on this host");
  Descriptor file(memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw StartupError(fmt::format("memfd_create: {}", std::strerror(errno)));
  const FileSizeSignalBlock no_signal;
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) throw refused(errno, bytes, true);
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw StartupError(fmt::format("sealing shared memory: {}", std::strerror(errno)));
  return {std::move(file), bytes};
}

MappedMemory MappedMemory::map_shared(Descriptor file, std::size_t bytes) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0)
    throw StartupError(fmt::format("shared memory from rank 0: {}", std::strerror(errno)));
  if (static_cast<std::size_t>(status.st_size) != bytes)
    throw StartupError(
        fmt::format("shared memory from rank 0 has {} bytes, expected {}", status.st_size, bytes));
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    throw StartupError("shared memory from rank 0 is not sealed against shrinking");
  return {std::move(file), bytes};
}

void MappedMemory::reserve(std::size_t offset, std::size_t bytes) const {
  if (bytes == 0) return;
  // Writing faults take huge pages where a reservation by fallocate would not. EINVAL: a kernel
  // before 5.14, on which the steps below do the work.
  const bool populated = madvise(bytes_.data() + offset, bytes, MADV_POPULATE_WRITE) == 0;
  if (!populated && errno != EINVAL) throw refused(errno, bytes, static_cast<bool>(file_));
  if (file_) {
    const FileSizeSignalBlock no_signal;
    while (fallocate(file_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0)
      if (errno != EINTR) throw refused(errno, bytes, true);
  } else if (!populated) {
    for (std::size_t at = offset; at < offset + bytes; at += page_size())
      *const_cast<volatile std::byte*>(&bytes_[at]) = std::byte{};
  }
}

void MappedMemory::prefault() const {
  madvise(bytes_.data(), bytes_.size(), MADV_POPULATE_READ);
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace lockstep::comm
