// Releases memory that a run holds but does not need, during the run. It is allocated again when
// needed; results do not change.
#pragma once

#include <cstdint>
#include <string>

#include "sotto/data/audio/audio_cache.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

struct ReleasedCaches {
  // Bytes of decoded audio, and of host memory retained for the next micro-batch.
  int64_t audio_bytes = 0;
  int64_t host_bytes = 0;
  // Resident memory of the process before and after; includes memory that the C library returned to
  // the system.
  int64_t resident_before_bytes = 0;
  int64_t resident_after_bytes = 0;

  // "released 3.10 MiB of decoded audio; RAM of the process went from 410 MiB to 395 MiB"
  std::string to_string() const;
};

// `audio` may be null; `afterwards`: whether it may be filled again. Device memory is not released:
// all of it belongs to the arena, and what cuBLAS holds is accounted for.
ReleasedCaches release_caches(data::AudioCache* audio, data::AudioCache::Afterwards afterwards,
                              Learner& learner);

// Throws ConfigError where caches are to be released after `every` updates, but the run ends
// earlier.
void check_release_interval(int64_t every, int64_t total_steps);

}  // namespace sotto::train
