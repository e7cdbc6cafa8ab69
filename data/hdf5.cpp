#include "data/hdf5.h"

#include "framework/base/error.h"

namespace lockstep::data::hdf5 {

namespace {

herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* reason) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(reason) = error->desc;
  return 0;
}

}  // namespace

std::unique_lock<std::recursive_mutex> lock() {
  static std::recursive_mutex mutex;
  std::unique_lock guard(mutex);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  return guard;
}

void fail(const std::string& what) {
  const auto guard = lock();
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &reason);
  throw DataError(reason.empty() ? what : what + " (HDF5: " + reason + ")");
}

void Handle::reset() noexcept {
  if (id_ < 0) return;
  const auto guard = lock();
  close_(std::exchange(id_, H5I_INVALID_HID));
}

void Handle::close(const std::string& what) {
  if (id_ < 0) return;
  const auto guard = lock();
  check(close_(std::exchange(id_, H5I_INVALID_HID)), what);
}

}  // namespace lockstep::data::hdf5
