#include "sotto/decode/token_search.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

// A hypothesis that has not ended, with its row in the scorer.
struct Open {
  int64_t utterance = 0;
  TokenHypothesis said = {};
};

// A possible continuation of an open hypothesis.
struct Continuation {
  int64_t source = 0;
  int32_t token = 0;
  double score = 0.0;
};

class TokenSearch {
 public:
  TokenSearch(models::Scorer& scorer, const TokenSearchOptions& options)
      : scorer_(scorer), width_(options.width), ended_(static_cast<size_t>(scorer.size())) {
    SOTTO_ASSERT(width_ >= 1, "a beam of {}", width_);
  }

  std::vector<TokenHypothesis> run() {
    at::Tensor scores = scorer_.begin();
    for (int64_t utterance = 0; utterance < scorer_.size(); ++utterance)
      open_.push_back({.utterance = utterance});
    if (scores.is_meta()) return run_dry();
    for (int64_t length = 1; !open_.empty() && length <= scorer_.max_tokens(); ++length) {
      extend(scores.to(at::kCPU, at::kFloat).contiguous());
      if (!open_.empty() && length < scorer_.max_tokens()) scores = scorer_.step(last_tokens());
    }
    std::vector<TokenHypothesis> best;
    for (int64_t utterance = 0; utterance < scorer_.size(); ++utterance)
      best.push_back(best_of(utterance));
    return best;
  }

 private:
  // Takes the memory of the widest and longest search: every beam is full from the second token on.
  std::vector<TokenHypothesis> run_dry() {
    std::vector<int64_t> sources;
    for (int64_t utterance = 0; utterance < scorer_.size(); ++utterance)
      sources.insert(sources.end(), static_cast<size_t>(width_), utterance);
    scorer_.reorder(sources);
    const std::vector<int32_t> tokens(sources.size(), 0);
    for (int64_t length = 1; length < scorer_.max_tokens(); ++length) {
      scorer_.step(tokens);
      std::iota(sources.begin(), sources.end(), int64_t{0});
      scorer_.reorder(sources);
    }
    return std::vector<TokenHypothesis>(static_cast<size_t>(scorer_.size()));
  }

  // Continues each utterance with its best continuations; ended hypotheses leave the beam.
  void extend(const at::Tensor& scores) {
    std::vector<int64_t> sources;
    std::vector<Open> next;
    size_t first = 0;
    while (first < open_.size()) {
      size_t last = first;
      while (last < open_.size() && open_[last].utterance == open_[first].utterance) ++last;
      for (const Continuation& each : best_continuations(scores, first, last)) {
        const Open& source = open_[static_cast<size_t>(each.source)];
        if (each.token == scorer_.end_token()) {
          keep_ended(source.utterance, {.tokens = source.said.tokens, .score = each.score});
          continue;
        }
        Open& open = next.emplace_back(source);
        open.said.tokens.push_back(each.token);
        open.said.score = each.score;
        sources.push_back(each.source);
      }
      first = last;
    }
    open_ = std::move(next);
    drop_hopeless(sources);
    if (!open_.empty()) scorer_.reorder(sources);
  }

  // Returns the best `width` of all continuations of the hypotheses first .. last. scores [H, V].
  std::vector<Continuation> best_continuations(const at::Tensor& scores, size_t first,
                                               size_t last) const {
    const int64_t vocabulary = scores.size(1);
    std::vector<Continuation> all;
    for (size_t source = first; source < last; ++source) {
      const float* row = scores.const_data_ptr<float>() + static_cast<int64_t>(source) * vocabulary;
      for (int64_t token = 0; token < vocabulary; ++token)
        all.push_back({.source = static_cast<int64_t>(source),
                       .token = static_cast<int32_t>(token),
                       .score = open_[source].said.score + double{row[token]}});
    }
    const auto count =
        static_cast<std::ptrdiff_t>(std::min(all.size(), static_cast<size_t>(width_)));
    // Ties are resolved by order.
    const auto is_better = [](const Continuation& a, const Continuation& b) {
      return std::tuple(-a.score, a.source, a.token) < std::tuple(-b.score, b.source, b.token);
    };
    std::ranges::partial_sort(all, all.begin() + count, is_better);
    all.resize(static_cast<size_t>(count));
    return all;
  }

  void keep_ended(int64_t utterance, TokenHypothesis hypothesis) {
    std::optional<TokenHypothesis>& best = ended_[static_cast<size_t>(utterance)];
    if (!best || hypothesis.score > best->score) best = std::move(hypothesis);
  }

  // Scores never increase: a hypothesis below an ended one of its utterance stays below it.
  void drop_hopeless(std::vector<int64_t>& sources) {
    std::vector<Open> kept;
    std::vector<int64_t> kept_sources;
    for (size_t i = 0; i < open_.size(); ++i) {
      const auto& best = ended_[static_cast<size_t>(open_[i].utterance)];
      if (best && open_[i].said.score <= best->score) continue;
      kept.push_back(std::move(open_[i]));
      kept_sources.push_back(sources[i]);
    }
    open_ = std::move(kept);
    sources = std::move(kept_sources);
  }

  std::vector<int32_t> last_tokens() const {
    std::vector<int32_t> tokens;
    for (const Open& open : open_) tokens.push_back(open.said.tokens.back());
    return tokens;
  }

  // Returns the best ended hypothesis; else the best that was cut.
  TokenHypothesis best_of(int64_t utterance) const {
    if (const auto& ended = ended_[static_cast<size_t>(utterance)]) return *ended;
    TokenHypothesis best;
    bool is_first = true;
    for (const Open& open : open_) {
      if (open.utterance != utterance) continue;
      if (is_first || open.said.score > best.score) best = open.said;
      is_first = false;
    }
    return best;
  }

  models::Scorer& scorer_;
  int64_t width_;
  std::vector<Open> open_;  // by utterance, in the order of the scorer's rows
  std::vector<std::optional<TokenHypothesis>> ended_;  // best of each utterance
};

}  // namespace

std::vector<TokenHypothesis> find_tokens(models::Scorer& scorer,
                                         const TokenSearchOptions& options) {
  return TokenSearch(scorer, options).run();
}

}  // namespace sotto::decode
