// The few things that every use of the HDF5 C library in this process goes through: the lock,
// handles that close themselves, and the library's error stack as one message.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace lockstep::data::hdf5 {

// The HDF5 library keeps process-wide state (open identifiers, caches, the error stack) and, as
// distributions build it, no lock of its own. So the lock that guards it is as wide as that state:
// one for the process, whichever rank's thread is calling. Recursive, because closing a handle
// takes it too.
//
// Taking it also keeps the library from printing its error stack; check() reports it instead.
[[nodiscard]] std::unique_lock<std::recursive_mutex> lock();

// Throws DataError "<what> (HDF5: <innermost reason>)".
[[noreturn]] void fail(const std::string& what);

// For results that are negative on failure.
template <class Result>
Result check(Result result, const std::string& what) {
  if (result < 0) fail(what);
  return result;
}

// Owns an identifier; closes it under the lock.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  // Takes the result of a call that opens or creates; throws DataError when it failed.
  Handle(hid_t id, Close closer, const std::string& what) : id_(check(id, what)), close_(closer) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }

  hid_t get() const { return id_; }
  void reset() noexcept;
  // Closes a handle whose closing writes something, and so may fail.
  void close(const std::string& what);

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

}  // namespace lockstep::data::hdf5
