#include "sotto/core/error.h"
#include "sotto/core/event_message.h"

namespace sotto {

namespace {

[[noreturn]] void refuse() {
  throw ConfigError({.attempted = "writing an event file for TensorBoard",
                     .found = "a sotto that was built without protobuf",
                     .hint = "Install libprotobuf-dev and protobuf-compiler, then build again; "
                             "SOTTO_EVENTS=ON insists on them."});
}

}  // namespace

bool has_event_messages() {
  return false;
}

std::string file_version_message(double /*time_s*/) {
  refuse();
}

std::string session_start_message(double /*time_s*/, int64_t /*step*/) {
  refuse();
}

std::string scalars_message(double /*time_s*/, int64_t /*step*/,
                            std::span<const Scalar> /*scalars*/) {
  refuse();
}

}  // namespace sotto
