// Encodes a protobuf message field by field. A field is a key (its number and wire type) and a
// value.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sotto {

class ProtobufMessage {
 public:
  void put_integer(uint32_t field, int64_t value) {
    put_key(field, kVarint);
    put_varint(static_cast<uint64_t>(value));
  }
  void put_double(uint32_t field, double value) {
    put_key(field, kFixed64);
    put_raw(value);
  }
  void put_float(uint32_t field, float value) {
    put_key(field, kFixed32);
    put_raw(value);
  }
  // Appends text or a nested message.
  void put_bytes(uint32_t field, std::string_view bytes) {
    put_key(field, kBytes);
    put_varint(bytes.size());
    bytes_ += bytes;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  enum Kind : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  void put_key(uint32_t field, Kind kind) { put_varint(field << 3 | kind); }

  // Seven bits per byte, lowest first; the highest bit of a byte is set if another byte follows.
  void put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  // Little-endian, like all supported machines.
  template <class Number>
  void put_raw(Number value) {
    char raw[sizeof(Number)];
    std::memcpy(raw, &value, sizeof(Number));
    bytes_.append(raw, sizeof(Number));
  }

  std::string bytes_;
};

}  // namespace sotto
