#include "sotto/train/run/caches.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::train {

namespace {

// Resident memory of this process; 0 where the system does not report it.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

std::string ReleasedCaches::to_string() const {
  std::vector<std::string> parts;
  if (audio_bytes > 0)
    parts.push_back(fmt::format("{} of decoded audio", format_bytes(audio_bytes)));
  if (host_bytes > 0) parts.push_back(fmt::format("{} of copy buffers", format_bytes(host_bytes)));
  return fmt::format(
      "released {}; RAM of the process went from {} to {}",
      parts.empty() ? "memory of libraries" : fmt::format("{}", fmt::join(parts, ", ")),
      format_bytes(resident_before_bytes), format_bytes(resident_after_bytes));
}

ReleasedCaches release_caches(data::AudioCache* audio, data::AudioCache::Afterwards afterwards,
                              Learner& learner) {
  ReleasedCaches released{.resident_before_bytes = resident_bytes()};
  if (audio != nullptr) released.audio_bytes = audio->release(afterwards);
  released.host_bytes = learner.release_caches();
  malloc_trim(0);
  released.resident_after_bytes = resident_bytes();
  return released;
}

void check_release_interval(int64_t every, int64_t total_steps) {
  if (every <= total_steps) return;
  throw ConfigError(
      {.attempted = "setting up the run",
       .found = fmt::format("release_caches_every: {} in a run of {} updates", every, total_steps),
       .expected = fmt::format("0 (never) to {}", total_steps)});
}

}  // namespace sotto::train
