// The protocol between a store's server and its clients.
//
// A message is a frame: its length in four bytes, then the body; integers are little-endian, a text
// is its length in four bytes and its bytes. The body of a request is its kind (1 byte), its number
// (4) and its fields; that of a reply the number of the request (4), a status (1) and its fields:
//
//   greet  secret             ->  -                       first on a TCP connection, nothing else
//   before set    key, value         ->  - get    key, milliseconds  ->  value sent when the key is
//   there or the time is over has    count, keys        ->  a byte 0 or 1 for each add    counter,
//   amount    ->  the new value
//
// Replies come in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "comm/store/store.h"
#include "framework/base/error.h"

namespace lockstep::comm {

enum class Request : std::uint8_t { greet = 1, set, get, has, add };
enum class Status : std::uint8_t { ok, exists, timeout };

inline constexpr std::string_view greeting_magic = "lockstep store 1";
inline constexpr std::size_t max_secret = 256;
// The longest body: of a greeting, of which strangers may send as much, and of any message.
inline constexpr std::size_t max_greeting_body = 512;
inline constexpr std::size_t max_body = max_store_message + 64;

// What the other side sent is no message of this protocol.
class ProtocolError : public StartupError {
 public:
  using StartupError::StartupError;
};

// Builds one frame.
class MessageWriter {
 public:
  static MessageWriter request(Request kind, std::uint32_t number);
  static MessageWriter reply(std::uint32_t number, Status status);

  MessageWriter& put(std::uint8_t value);
  MessageWriter& put(std::uint32_t value);
  MessageWriter& put(std::int64_t value);
  MessageWriter& put(std::string_view text);
  std::string frame();  // of everything that was put

 private:
  std::string body_;
};

// Takes a body apart; ProtocolError where it ends early.
class MessageReader {
 public:
  explicit MessageReader(std::string_view body) : rest_(body) {}

  std::uint8_t take_u8();
  std::uint32_t take_u32();
  std::int64_t take_i64();
  std::string take_text();
  std::string_view rest() const { return rest_; }
  void expect_end() const;  // ProtocolError where there is more

 private:
  std::string_view take(std::size_t bytes);
  std::uint64_t take_integer(std::size_t bytes);

  std::string_view rest_;
};

// Takes the first whole frame's body out of `received`; none where it is not complete yet.
// ProtocolError where it announces more than `most` bytes.
std::optional<std::string> take_body(std::string& received, std::size_t most);

}  // namespace lockstep::comm
