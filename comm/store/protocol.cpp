#include "comm/store/protocol.h"

namespace lockstep::comm {
namespace {

void append_integer(std::string& to, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to.push_back(static_cast<char>(value >> (8 * i)));
}

std::uint64_t read_integer(std::string_view from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < from.size(); ++i)
    value |= std::uint64_t{static_cast<unsigned char>(from[i])} << (8 * i);
  return value;
}

constexpr std::size_t length_bytes = 4;

}  // namespace

MessageWriter MessageWriter::request(Request kind, std::uint32_t number) {
  MessageWriter writer;
  writer.put(static_cast<std::uint8_t>(kind)).put(number);
  return writer;
}

MessageWriter MessageWriter::reply(std::uint32_t number, Status status) {
  MessageWriter writer;
  writer.put(number).put(static_cast<std::uint8_t>(status));
  return writer;
}

MessageWriter& MessageWriter::put(std::uint8_t value) {
  append_integer(body_, value, 1);
  return *this;
}

MessageWriter& MessageWriter::put(std::uint32_t value) {
  append_integer(body_, value, 4);
  return *this;
}

MessageWriter& MessageWriter::put(std::int64_t value) {
  append_integer(body_, static_cast<std::uint64_t>(value), 8);
  return *this;
}

MessageWriter& MessageWriter::put(std::string_view text) {
  put(static_cast<std::uint32_t>(text.size()));
  body_.append(text);
  return *this;
}

std::string MessageWriter::frame() {
  std::string frame;
  append_integer(frame, body_.size(), length_bytes);
  return frame + body_;
}

std::string_view MessageReader::take(std::size_t bytes) {
  if (bytes > rest_.size()) throw ProtocolError("a message that ends early");
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::uint64_t MessageReader::take_integer(std::size_t bytes) {
  return read_integer(take(bytes));
}

std::uint8_t MessageReader::take_u8() {
  return static_cast<std::uint8_t>(take_integer(1));
}

std::uint32_t MessageReader::take_u32() {
  return static_cast<std::uint32_t>(take_integer(4));
}

std::int64_t MessageReader::take_i64() {
  return static_cast<std::int64_t>(take_integer(8));
}

std::string MessageReader::take_text() {
  return std::string(take(take_u32()));
}

void MessageReader::expect_end() const {
  if (!rest_.empty()) throw ProtocolError("a message that is too long");
}

std::optional<std::string> take_body(std::string& received, std::size_t most) {
  if (received.size() < length_bytes) return std::nullopt;
  const std::size_t length = read_integer(std::string_view(received).substr(0, length_bytes));
  if (length > most) throw ProtocolError("a message that is too long");
  if (received.size() < length_bytes + length) return std::nullopt;
  std::string body = received.substr(length_bytes, length);
  received.erase(0, length_bytes + length);
  return body;
}

}  // namespace lockstep::comm
