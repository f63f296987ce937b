// What a run holds beyond what it needs, given back in its middle. It is taken anew where it is
// needed; no result changes.
#pragma once

#include <cstdint>
#include <string>

#include "sotto/data/audio/audio_cache.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

struct ReleasedCaches {
  // Of the cache of decoded audio, and of host memory that is kept for the next micro-batch.
  int64_t audio_bytes = 0;
  int64_t host_bytes = 0;
  // RAM of the process before and after: what the C library held for libraries and for us went back
  // to the system too.
  int64_t resident_before_bytes = 0;
  int64_t resident_after_bytes = 0;

  // "gave back 3.10 MiB of decoded audio; the process went from 410 MiB of RAM to 395 MiB"
  std::string to_string() const;
};

// `audio` may be absent; `afterwards` says whether it takes in again. Memory of the device is not
// given back: all of it is the arena's, and what cuBLAS holds is counted as taken.
ReleasedCaches release_caches(data::AudioCache* audio, data::AudioCache::Afterwards afterwards,
                              Learner& learner);

// Throws ConfigError where caches are to be given back after so many updates, and the run ends
// before.
void check_release_interval(int64_t every, int64_t total_steps);

}  // namespace sotto::train
