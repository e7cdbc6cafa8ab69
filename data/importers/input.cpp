#include "data/importers/input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "framework/base/error.h"

namespace lockstep::data {

namespace {

constexpr std::size_t largest_read = std::size_t{1} << 30;  // gzread counts in int
constexpr unsigned buffer_bytes = 1 << 17;

}  // namespace

Input::Input(const std::string& path) : path_(path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw DataError(path + ": found a directory, expected a file");
  }
  errno = 0;
  file_.reset(gzopen(path.c_str(), "rbe"));  // reads files without gzip's header as they are
  if (!file_) throw DataError(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  gzbuffer(file_.get(), buffer_bytes);
}

void Input::fail() {
  int code = 0;
  const char* const reason = gzerror(file_.get(), &code);
  throw DataError(fmt::format("{}: cannot be read: {}", path_,
                              code == Z_ERRNO ? std::strerror(errno) : reason));
}

std::size_t Input::read_some(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const auto wanted = static_cast<unsigned>(std::min(out.size() - done, largest_read));
    const int got = gzread(file_.get(), out.data() + done, wanted);
    int code = 0;
    gzerror(file_.get(), &code);  // a compressed file that ends early gives what there is, and this
    if (got < 0 || code < 0) fail();
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void Input::read(std::span<std::byte> out, const std::string& what) {
  const std::size_t got = read_some(out);
  if (got != out.size()) {
    throw DataError(fmt::format("{}: the file ends in {}: found {} bytes, expected {}", path_, what,
                                got, out.size()));
  }
}

bool Input::read_line(std::string& line) {
  line.clear();
  std::array<char, 4096> part;
  while (gzgets(file_.get(), part.data(), static_cast<int>(part.size())) != nullptr) {
    line += part.data();
    if (line.back() != '\n') continue;
    line.pop_back();
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return true;
  }
  int code = 0;
  gzerror(file_.get(), &code);
  if (code < 0) fail();
  return !line.empty();
}

}  // namespace lockstep::data
