// Categories of errors in an utterance's audio, for statistics.
#pragma once

#include "sotto/core/error.h"

namespace sotto::data {

class AudioError : public DataError {
 public:
  enum class Kind {
    // Missing, not audio, truncated.
    kUnreadable,
    // Audio without samples, or a file without bytes.
    kEmpty,
    // A NaN or infinite sample.
    kNotFinite,
    // Duration differs from the manifest.
    kWrongLength
  };

  AudioError(Kind kind, const Problem& problem) : DataError(problem), kind_(kind) {}

  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace sotto::data
