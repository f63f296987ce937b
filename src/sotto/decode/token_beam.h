// The hypotheses of one utterance in a search over the tokens of a decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/decode/ctc_prefix.h"
#include "sotto/decode/token_search.h"

namespace sotto::decode {

// What of the options differs between utterances.
struct TokenBeamInput {
  int64_t num_frames = 0;
  // Length of its prompt.
  int64_t num_given = 0;
  // Most tokens after the network's own start.
  int64_t max_tokens = models::Scorer::kUnlimited;
  int32_t end_token = 0;
  // Where tokens are drawn: the utterance's random numbers.
  std::optional<RandomStream> draws = std::nullopt;
  // None: no CTC.
  std::optional<CtcPrefixes> ctc = std::nullopt;
};

// Returns the maximum number of tokens of an utterance without its end.
int64_t most_tokens(const TokenSearchOptions& options, const TokenBeamInput& utterance);

class TokenBeam {
 public:
  // A hypothesis that has not ended.
  struct Open {
    std::vector<int32_t> tokens = {};
    double attention = 0.0;  // log probability
    double score = 0.0;
    double allowed = 0.0;  // log probability among the tokens that the rules allow
    CtcPrefixes::State ctc = {};
    WordScores::State words = {};
  };

  // The options must outlive this object.
  TokenBeam(const TokenSearchOptions& options, const TokenBeamInput& input);

  const std::vector<Open>& open() const { return open_; }
  // The hypothesis, by its former index, that each open one continues.
  const std::vector<size_t>& sources() const { return sources_; }
  const std::optional<TokenHypothesis>& best() const { return best_; }

  // Continues the open hypotheses; `scores` has a row of log-probabilities for each, and is
  // overwritten.
  void extend(std::span<float> scores);
  // Drops all open hypotheses.
  void stop();

 private:
  // A possible continuation of an open hypothesis.
  struct Continuation {
    size_t source = 0;
    int32_t token = 0;
    double attention = 0.0;
    double score = 0.0;
    double allowed = 0.0;
  };
  static bool is_better(const Continuation& a, const Continuation& b);

  bool has_words() const { return options_.words != nullptr; }
  // Continuations that are considered: with a length penalty, enough for a full beam if all of the
  // best end.
  size_t num_considered() const;
  // Drops continuations that have no chance, before wide beams have many of them.
  void drop_worst(std::vector<Continuation>& all) const;
  void add_continuations(size_t source, std::span<const float> scores,
                         std::vector<Continuation>& all);
  // Returns the likeliest tokens other than the end.
  std::vector<int32_t> likeliest(std::span<const float> scores) const;
  void add(Continuation to, float log_probability, std::vector<Continuation>& all) const;
  // Adds one token, drawn by its probability.
  void add_drawn(size_t source, std::span<const float> scores, std::vector<Continuation>& all);
  WordScores::State words_after(const Open& open, int32_t token) const;
  Open continued(const Continuation& by) const;
  // Keeps a hypothesis that has ended, and forgets its end.
  void keep_ended(const Continuation& last);
  // Whether a hypothesis is complete with this token.
  bool ends(const Continuation& last) const;
  void drop_hopeless();

  const TokenSearchOptions& options_;
  TokenBeamInput input_;
  int64_t fewest_;
  int64_t most_;
  // Whether a hypothesis of the most tokens is complete without an end token.
  bool fills_positions_;
  // Log of the probability that the rules leave to each open hypothesis.
  std::vector<double> log_mass_;
  std::vector<Open> open_;
  std::vector<size_t> sources_;
  std::optional<TokenHypothesis> best_;
  // Scores of the best hypotheses that have ended, best first; up to the width.
  std::vector<double> ended_;
  int64_t num_ended_ = 0;
};

}  // namespace sotto::decode
