// The hypotheses of one utterance in a beam search over the lattice of a transducer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "sotto/decode/transducer_search.h"
#include "sotto/kernels/loss/ctc_greedy.h"
#include "sotto/models/lattice_scorer.h"

namespace sotto::decode {

// The memories of an utterance: one is free again when the last hypothesis that uses it is gone.
class Memories {
 public:
  Memories(int64_t first, int64_t count);

  using Handle = std::shared_ptr<const int64_t>;
  Handle take();

 private:
  std::vector<int64_t> free_;
};

struct LatticeHypothesis {
  std::vector<kernels::CtcGreedy::Label> labels = {};
  double score = 0.0;
  // Null without labels, and until the scorer has its last label.
  Memories::Handle memory = nullptr;
  // The memory that its last label continues.
  Memories::Handle before = nullptr;
};

// The hypotheses that arrive at a frame, one per label sequence, in the order of those.
class Arrivals {
 public:
  // Adds the probability of an alignment; frames are those of the likelier one.
  void add(LatticeHypothesis hypothesis);

  // Among equal ones the first are kept.
  void keep_best(int64_t width);

  std::vector<LatticeHypothesis> take();

  std::map<std::vector<int32_t>, LatticeHypothesis>& by_labels() { return by_labels_; }

 private:
  std::map<std::vector<int32_t>, LatticeHypothesis> by_labels_;
};

// Returns the memories that the search for one utterance needs: for the hypotheses that arrive at
// the frames that can be reached, those at the current frame, and those that they continue.
int64_t num_memories(const models::LatticeScorer& scorer, int64_t width);
// Returns how many of them may be written in one step.
int64_t num_appended(const models::LatticeScorer& scorer, int64_t width);

class TransducerBeam {
 public:
  // Options and scorer must outlive this object.
  TransducerBeam(const TransducerSearchOptions& options, const models::LatticeScorer& scorer,
                 int64_t utterance);
  TransducerBeam(const TransducerBeam&) = delete;
  TransducerBeam& operator=(const TransducerBeam&) = delete;

  // The hypotheses that arrived at a frame become current.
  void enter(int64_t frame);

  // Adds the nodes of the current hypotheses.
  void add_nodes(std::vector<models::LatticeScorer::Node>& nodes) const;

  // Continues the current hypotheses; `scores` has a row of log-probabilities for each: entries,
  // then durations. Those that stay at this frame are current then.
  void extend(std::span<const float> scores);

  // Adds what the scorer has to append for hypotheses with a new last label, before the next nodes.
  void add_labels(std::vector<models::LatticeScorer::Append>& appended);

  // Returns the best that a blank ended exactly after the last frame, as the loss counts it; if
  // there is none, the best of the others.
  TransducerHypothesis best();

 private:
  struct Way {
    int32_t entry = 0;
    int64_t duration = 0;
    double score = 0.0;
  };

  int64_t num_entries(std::span<const float> scores) const;
  std::vector<int32_t> likely_entries(std::span<const float> scores) const;
  void extend(const LatticeHypothesis& source, int32_t entry, std::span<const float> scores,
              Arrivals& staying);
  void add(const LatticeHypothesis& source, const Way& way, Arrivals& staying);
  // Returns the arrivals at the frames that can be reached from this one.
  std::span<Arrivals> reachable();

  const TransducerSearchOptions& options_;
  const models::LatticeScorer& scorer_;
  int64_t utterance_;
  int64_t num_frames_;
  int64_t frame_ = 0;
  // Labels at this frame in the current hypotheses.
  int64_t num_symbols_ = 0;
  // Outlives the hypotheses, whose memories return to it.
  Memories memories_;
  std::vector<LatticeHypothesis> current_;
  // By frame; after the last, those that ended, and those that went beyond the end.
  std::vector<Arrivals> arrivals_;
  // Memories that the labels of the last step continue: not free before the scorer has read them.
  std::vector<Memories::Handle> read_;
};

}  // namespace sotto::decode
