// Input: a file to import, plain or compressed by gzip, as a stream of bytes.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lockstep::data {

// Errors are DataError naming the file. Used by one thread at a time.
class Input {
 public:
  explicit Input(const std::string& path);

  const std::string& path() const { return path_; }
  // Fills `out` as far as the file goes and returns how much that was.
  std::size_t read_some(std::span<std::byte> out);
  // Fills `out`; `what` says of what, when the file ends before.
  void read(std::span<std::byte> out, const std::string& what);
  // The next line without its end ("\n" or "\r\n"); false at the end of the file.
  bool read_line(std::string& line);

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose_r(file); }
  };
  [[noreturn]] void fail();

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace lockstep::data
