// Decodes a protobuf message field by field; protobuf_message.h encodes them.
//
//   ProtobufReader reader(bytes);
//   while (const std::optional<ProtobufReader::Field> field = reader.next())
//     if (field->number == 3) type = field->integer;
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "sotto/core/error.h"

namespace sotto {

class ProtobufReader {
 public:
  struct Field {
    uint64_t number = 0;
    // The value of a varint or of fixed bits.
    uint64_t integer = 0;
    // Text, or a nested message.
    std::string_view bytes = {};
    // The field with its key.
    std::string_view whole = {};

    // The value of a field of type float.
    float as_float() const {
      float value = 0.0F;
      const auto bits = static_cast<uint32_t>(integer);
      std::memcpy(&value, &bits, sizeof(value));
      return value;
    }
  };

  // The bytes must outlive the reader and its fields. `source` names them in errors.
  explicit ProtobufReader(std::string_view message, std::string_view source = "a protobuf message")
      : rest_(message), source_(source) {}

  // Returns the next field; std::nullopt at the end. Throws DataError where the message is broken.
  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::string_view start = rest_;
    const uint64_t key = take_varint();
    Field field{.number = key >> 3U};
    switch (key & 7U) {
      case 0: field.integer = take_varint(); break;
      case 1: field.integer = bits_of(take_bytes(8)); break;
      case 2: field.bytes = take_bytes(take_varint()); break;
      case 5: field.integer = bits_of(take_bytes(4)); break;
      default: refuse();
    }
    field.whole = start.substr(0, start.size() - rest_.size());
    return field;
  }

 private:
  [[noreturn]] void refuse() const {
    throw DataError({.attempted = fmt::format("reading {}", source_),
                     .found = "it is damaged, or of another format",
                     .expected = "a whole protobuf message"});
  }

  std::string_view take_bytes(uint64_t count) {
    if (count > rest_.size()) refuse();
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  // Seven bits per byte, lowest first; the highest bit of a byte is set if another byte follows.
  uint64_t take_varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take_bytes(1).front());
      value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80U) return value;
    }
    refuse();
  }

  // Little-endian, like all supported machines.
  static uint64_t bits_of(std::string_view bytes) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    return bits;
  }

  std::string_view rest_;
  std::string_view source_;
};

}  // namespace sotto
