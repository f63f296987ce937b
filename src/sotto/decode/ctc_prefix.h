// Log probabilities of label prefixes under CTC, one label at a time (Watanabe et al. 2017, "Hybrid
// CTC/Attention Architecture for End-to-End Speech Recognition", algorithm 2): the probability that
// a labelling begins with the prefix, summed over all paths. T frames, V labels.
//
//   const CtcPrefixes prefixes(logits, vocabulary, blank);
//   CtcPrefixes::State state = prefixes.begin();
//   double score = prefixes.score(state, label);  // of the prefix with one more label
//   state = prefixes.extend(state, label);
//   double whole = prefixes.finish(state);        // that the labelling ends here
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sotto::decode {

class CtcPrefixes {
 public:
  // logits [T, V], row-major. A frame with NaN counts as blank. `room`: as many values, for the log
  // probabilities, valid as long as this object.
  CtcPrefixes(std::span<const float> logits, int64_t vocabulary, int64_t blank,
              std::span<float> room);

  struct State {
    // Last label; -1: the empty prefix.
    int32_t last = -1;
    int64_t num_labels = 0;
    // Log probability of the paths of the first t + 1 frames that collapse to the prefix, and end
    // in its last label, or in a blank. [T]
    std::vector<float> in_label;
    std::vector<float> in_blank;
    std::vector<float> in_any;  // sum of both
  };

  State begin() const;
  // Returns the log probability of all labellings that begin with the prefix and `label`; minus
  // infinity where there is none, and for the blank.
  double score(const State& state, int32_t label) const;
  State extend(const State& state, int32_t label) const;
  // Returns the log probability that the labelling is the prefix.
  double finish(const State& state) const;

  // Returns the most likely path of exactly these labels: the first frame of each. Empty where
  // there is none.
  std::vector<int64_t> align(std::span<const int32_t> labels) const;

  int64_t num_frames() const { return num_frames_; }

 private:
  float at(int64_t frame, int64_t label) const {
    return log_probabilities_[static_cast<size_t>(label * num_frames_ + frame)];
  }
  // Returns the log probability of all paths that end before a frame and to which `label` can be
  // added there.
  float before(const State& state, int32_t label, int64_t frame) const;

  int64_t vocabulary_;
  int64_t blank_;
  int64_t num_frames_;
  std::span<const float> log_probabilities_;  // [V, T]
};

}  // namespace sotto::decode
