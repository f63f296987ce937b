#include "sotto/core/event_message.h"

#include <event_message.pb.h>

namespace sotto {

namespace {

// The version of the format, by which readers know that they can read it.
constexpr const char* kFileVersion = "brain.Event:2";

}  // namespace

bool has_event_messages() {
  return true;
}

std::string file_version_message(double time_s) {
  events::Event event;
  event.set_wall_time(time_s);
  event.set_file_version(kFileVersion);
  return event.SerializeAsString();
}

std::string session_start_message(double time_s, int64_t step) {
  events::Event event;
  event.set_wall_time(time_s);
  event.set_step(step);
  event.mutable_session_log()->set_status(events::SessionLog::START);
  return event.SerializeAsString();
}

std::string scalars_message(double time_s, int64_t step, std::span<const Scalar> scalars) {
  events::Event event;
  event.set_wall_time(time_s);
  event.set_step(step);
  for (const Scalar& scalar : scalars) {
    events::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(scalar.tag.data(), scalar.tag.size());
    value.set_simple_value(static_cast<float>(scalar.value));
  }
  return event.SerializeAsString();
}

}  // namespace sotto
