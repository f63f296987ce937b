#include "sotto/core/formats/event_message.h"

#include <cstring>

namespace sotto {

namespace {

// Version of the format, which readers check.
constexpr std::string_view kFileVersion = "brain.Event:2";

// Encodes a message field by field. A field is a key (its number and wire type) and a value.
class Message {
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

// Field numbers of the messages; tests/unit/core/formats/event_message.proto has them in protobuf's
// language.
enum EventField : uint32_t { kWallTime = 1, kStep = 2, kVersion = 3, kSummary = 5, kSession = 7 };
enum SummaryField : uint32_t { kValue = 1 };
enum ValueField : uint32_t { kTag = 1, kSimpleValue = 2 };
enum SessionField : uint32_t { kStatus = 1 };
constexpr int64_t kSessionStarts = 1;

Message event_at(double time_s, int64_t step) {
  Message event;
  event.put_double(kWallTime, time_s);
  event.put_integer(kStep, step);
  return event;
}

}  // namespace

std::string file_version_message(double time_s) {
  Message event;
  event.put_double(kWallTime, time_s);
  event.put_bytes(kVersion, kFileVersion);
  return event.bytes();
}

std::string session_start_message(double time_s, int64_t step) {
  Message session;
  session.put_integer(kStatus, kSessionStarts);
  Message event = event_at(time_s, step);
  event.put_bytes(kSession, session.bytes());
  return event.bytes();
}

std::string scalars_message(double time_s, int64_t step, std::span<const Scalar> scalars) {
  Message summary;
  for (const Scalar& scalar : scalars) {
    Message value;
    value.put_bytes(kTag, scalar.tag);
    value.put_float(kSimpleValue, static_cast<float>(scalar.value));
    summary.put_bytes(kValue, value.bytes());
  }
  Message event = event_at(time_s, step);
  event.put_bytes(kSummary, summary.bytes());
  return event.bytes();
}

}  // namespace sotto
