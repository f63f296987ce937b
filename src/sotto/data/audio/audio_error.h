// What is wrong with an utterance's audio, in a form that can be counted.
#pragma once

#include "sotto/core/error.h"

namespace sotto::data {

class AudioError : public DataError {
 public:
  enum class Kind {
    // Missing, no audio, cut short.
    kUnreadable,
    // Audio without samples, or a file without bytes.
    kEmpty,
    // A NaN or infinite sample.
    kNotFinite,
    // Not as long as the manifest says.
    kWrongLength
  };

  AudioError(Kind kind, const Problem& problem) : DataError(problem), kind_(kind) {}

  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace sotto::data
