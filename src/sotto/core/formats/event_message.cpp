#include "sotto/core/formats/event_message.h"

#include "sotto/core/formats/protobuf_message.h"

namespace sotto {

namespace {

// Version of the format, which readers check.
constexpr std::string_view kFileVersion = "brain.Event:2";

using Message = ProtobufMessage;

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
