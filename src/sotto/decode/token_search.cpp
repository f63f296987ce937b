#include "sotto/decode/token_search.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/decode/ctc_prefix.h"
#include "sotto/decode/host_scores.h"

namespace sotto::decode {

namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// Tokens by which a hypothesis is continued, in addition to as many as the beam is wide.
constexpr int64_t kMoreTokens = 8;

// A hypothesis that has not ended.
struct Open {
  std::vector<int32_t> tokens = {};
  double attention = 0.0;  // log probability
  double score = 0.0;
  CtcPrefixes::State ctc = {};
  WordScores::State words = {};
};

// A possible continuation of an open hypothesis.
struct Continuation {
  size_t source = 0;
  int32_t token = 0;
  double attention = 0.0;
  double score = 0.0;
};

// Ties are resolved by order.
bool is_better(const Continuation& a, const Continuation& b) {
  return std::tuple(-a.score, a.source, a.token) < std::tuple(-b.score, b.source, b.token);
}

// Returns the bounds of the number of tokens of an utterance, rounded up.
int64_t rounded_up(double per_frame, int64_t num_frames) {
  return static_cast<int64_t>(std::ceil(per_frame * static_cast<double>(num_frames) - 1e-9));
}
struct TokenBounds {
  int64_t fewest = 0;
  int64_t most = 0;
};
TokenBounds bounds_of(const TokenSearchOptions& options, const models::Scorer& scorer,
                      int64_t num_frames) {
  const int64_t most =
      std::min(rounded_up(options.max_tokens_per_frame, num_frames), scorer.max_tokens());
  return {.fewest = std::min(rounded_up(options.min_tokens_per_frame, num_frames), most),
          .most = most};
}

// The hypotheses of one utterance.
class Beam {
 public:
  Beam(const TokenSearchOptions& options, const TokenBounds& bounds, int32_t end_token,
       std::optional<CtcPrefixes> ctc)
      : options_(options),
        fewest_(bounds.fewest),
        most_(bounds.most),
        end_token_(end_token),
        ctc_(std::move(ctc)) {
    Open& first = open_.emplace_back();
    if (ctc_) first.ctc = ctc_->begin();
    if (options.words != nullptr) first.words = options.words->begin();
  }

  const std::vector<Open>& open() const { return open_; }
  // The hypothesis, by its former index, that each open one continues.
  const std::vector<size_t>& sources() const { return sources_; }
  const std::optional<TokenHypothesis>& best() const { return best_; }

  // Continues the open hypotheses; `scores` has a row of log-probabilities for each.
  void extend(std::span<const float> scores) {
    const size_t vocabulary = scores.size() / open_.size();
    std::vector<Continuation> all;
    for (size_t source = 0; source < open_.size(); ++source) {
      add_continuations(source, scores.subspan(source * vocabulary, vocabulary), all);
      keep_best(all);
    }
    const auto count = std::min(all.size(), static_cast<size_t>(options_.width));
    std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(count), is_better);
    all.resize(count);
    // Nothing can follow: the best so far is all there is.
    if (all.empty() && !best_)
      best_ = {.tokens = open_.front().tokens, .score = open_.front().score};
    std::vector<Open> next;
    sources_.clear();
    for (const Continuation& each : all) {
      if (each.token == end_token_) {
        keep_ended({.tokens = open_[each.source].tokens, .score = each.score});
        continue;
      }
      next.push_back(continued(each));
      sources_.push_back(each.source);
    }
    open_ = std::move(next);
    drop_hopeless();
  }

 private:
  bool has_words() const { return options_.words != nullptr; }

  // Drops continuations that have no chance, before wide beams have many of them.
  void keep_best(std::vector<Continuation>& all) const {
    if (std::ssize(all) <= 2 * options_.width) return;
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(options_.width);
    std::ranges::nth_element(all, end, is_better);
    all.erase(end, all.end());
  }

  // Adds the likeliest tokens after a hypothesis. Its end counts as one from the fewest tokens on,
  // and is the only one after the most.
  void add_continuations(size_t source, std::span<const float> scores,
                         std::vector<Continuation>& all) const {
    const auto num_tokens = static_cast<int64_t>(open_[source].tokens.size());
    const auto end = static_cast<size_t>(end_token_);
    if (num_tokens >= fewest_) add(source, end_token_, scores[end], all);
    if (num_tokens >= most_) return;
    std::vector<int32_t> tokens(scores.size());
    std::iota(tokens.begin(), tokens.end(), 0);
    std::erase(tokens, end_token_);
    const auto count = std::min(tokens.size(), static_cast<size_t>(options_.width + kMoreTokens));
    std::ranges::partial_sort(tokens, tokens.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](int32_t a, int32_t b) {
                                const float of_a = scores[static_cast<size_t>(a)];
                                const float of_b = scores[static_cast<size_t>(b)];
                                return of_a > of_b || (of_a == of_b && a < b);
                              });
    for (size_t i = 0; i < count; ++i)
      add(source, tokens[i], scores[static_cast<size_t>(tokens[i])], all);
  }

  void add(size_t source, int32_t token, float log_probability,
           std::vector<Continuation>& all) const {
    const Open& open = open_[source];
    Continuation to{
        .source = source, .token = token, .attention = open.attention + double{log_probability}};
    to.score = to.attention;
    if (ctc_) {
      const double of_ctc =
          token == end_token_ ? ctc_->finish(open.ctc) : ctc_->score(open.ctc, token);
      to.score = (1.0 - options_.ctc_weight) * to.attention + options_.ctc_weight * of_ctc;
    }
    if (has_words()) to.score += words_after(open, token).given;
    // An impossible end still ends a hypothesis: it may be the only way on.
    const bool is_possible = to.score > kImpossible;
    if (!is_possible && token != end_token_) return;
    if (!is_possible) to.score = kImpossible;
    all.push_back(to);
  }

  WordScores::State words_after(const Open& open, int32_t token) const {
    WordScores::State words = open.words;
    if (token == end_token_) {
      options_.words->finish(words);
    } else {
      options_.words->add(words, token);
    }
    return words;
  }

  Open continued(const Continuation& by) const {
    const Open& from = open_[by.source];
    Open to{.tokens = from.tokens, .attention = by.attention, .score = by.score};
    to.tokens.push_back(by.token);
    if (ctc_) to.ctc = ctc_->extend(from.ctc, by.token);
    if (has_words()) to.words = words_after(from, by.token);
    return to;
  }

  void keep_ended(TokenHypothesis hypothesis) {
    ++num_ended_;
    if (!best_ || hypothesis.score > best_->score) best_ = std::move(hypothesis);
  }

  // Where scores never increase, a hypothesis below an ended one stays below it. Where they may,
  // none is dropped until as many have ended as the beam is wide.
  void drop_hopeless() {
    const bool may_increase = has_words() && options_.words->may_increase();
    if (!best_ || (may_increase && num_ended_ < options_.width)) return;
    size_t kept = 0;
    for (size_t i = 0; i < open_.size(); ++i) {
      if (open_[i].score <= best_->score) continue;
      if (kept != i) open_[kept] = std::move(open_[i]);
      sources_[kept++] = sources_[i];
    }
    open_.resize(kept);
    sources_.resize(kept);
  }

  const TokenSearchOptions& options_;
  int64_t fewest_;
  int64_t most_;
  int32_t end_token_;
  std::optional<CtcPrefixes> ctc_;
  std::vector<Open> open_;
  std::vector<size_t> sources_;
  std::optional<TokenHypothesis> best_;
  int64_t num_ended_ = 0;
};

// Makes the CTC scores of each utterance. `logits` [N, V] of all frames, on the host; `room`: as
// many values.
std::vector<std::optional<CtcPrefixes>> make_prefixes(const std::vector<int64_t>& num_frames,
                                                      const at::Tensor& logits, int64_t blank,
                                                      const at::Tensor& room) {
  std::vector<int64_t> starts = {0};
  for (const int64_t frames : num_frames) starts.push_back(starts.back() + frames);
  std::vector<std::optional<CtcPrefixes>> ctc(num_frames.size());
  const int64_t vocabulary = logits.size(1);
  at::parallel_for(0, std::ssize(num_frames), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto u = static_cast<size_t>(i);
      const int64_t first = starts[u] * vocabulary;
      const auto size = static_cast<size_t>(num_frames[u] * vocabulary);
      ctc[u].emplace(std::span(logits.const_data_ptr<float>() + first, size), vocabulary, blank,
                     std::span(room.mutable_data_ptr<float>() + first, size));
    }
  });
  return ctc;
}

std::vector<Beam> make_beams(const models::Scorer& scorer, const TokenSearchOptions& options,
                             std::vector<std::optional<CtcPrefixes>> ctc) {
  const std::vector<int64_t>& num_frames = scorer.num_frames();
  ctc.resize(num_frames.size());
  std::vector<Beam> beams;
  for (size_t u = 0; u < num_frames.size(); ++u)
    beams.emplace_back(options, bounds_of(options, scorer, num_frames[u]), scorer.end_token(),
                       std::move(ctc[u]));
  return beams;
}

// Continues all open hypotheses; scores [H, V] of them, utterance by utterance.
void extend_all(std::vector<Beam>& beams, const at::Tensor& scores) {
  const at::Tensor on_host = scores.to(at::kCPU, at::kFloat).contiguous();
  const int64_t vocabulary = on_host.size(1);
  std::vector<int64_t> starts = {0};
  for (const Beam& beam : beams) starts.push_back(starts.back() + std::ssize(beam.open()));
  at::parallel_for(0, std::ssize(beams), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Beam& beam = beams[static_cast<size_t>(i)];
      if (beam.open().empty()) continue;
      const int64_t first = starts[static_cast<size_t>(i)];
      beam.extend({on_host.const_data_ptr<float>() + first * vocabulary,
                   static_cast<size_t>(std::ssize(beam.open()) * vocabulary)});
    }
  });
}

// Tells the scorer which hypotheses continue. Returns the last token of each, none if all have
// ended.
// `num_before`: open hypotheses of each utterance before they were continued.
std::vector<int32_t> reorder(models::Scorer& scorer, const std::vector<Beam>& beams,
                             const std::vector<int64_t>& num_before) {
  std::vector<int64_t> sources;
  std::vector<int32_t> tokens;
  int64_t first = 0;
  for (size_t i = 0; i < beams.size(); ++i) {
    for (size_t n = 0; n < beams[i].open().size(); ++n) {
      sources.push_back(first + static_cast<int64_t>(beams[i].sources()[n]));
      tokens.push_back(beams[i].open()[n].tokens.back());
    }
    first += num_before[i];
  }
  if (!tokens.empty()) scorer.reorder(sources);
  return tokens;
}

// Rows of products up to which another way of multiplying on a CPU may take more memory than with
// many rows (Gemm).
constexpr int64_t kFewRows = 8;

// The memory of the widest and longest search: the scorer allocates it at the beginning, and a step
// takes the most when all beams are full, or when few hypotheses are left.
void run_dry(models::Scorer& scorer, int64_t width, int64_t longest) {
  std::vector<int64_t> sources;
  for (int64_t utterance = 0; utterance < scorer.size(); ++utterance)
    sources.insert(sources.end(), static_cast<size_t>(width), utterance);
  scorer.reorder(sources);
  scorer.step(std::vector<int32_t>(sources.size(), 0));
  if (longest == 1 || std::ssize(sources) <= kFewRows) return;
  std::vector<int64_t> few(static_cast<size_t>(kFewRows));
  std::iota(few.begin(), few.end(), int64_t{0});
  scorer.reorder(few);
  scorer.step(std::vector<int32_t>(few.size(), 0));
}

}  // namespace

std::vector<TokenHypothesis> find_tokens(models::Scorer& scorer, const TokenSearchOptions& options,
                                         const models::FrameScores* frames) {
  SOTTO_ASSERT(options.width >= 1, "a beam of {}", options.width);
  int64_t longest = 0;
  for (const int64_t num_frames : scorer.num_frames())
    longest = std::max(longest, bounds_of(options, scorer, num_frames).most);
  std::vector<std::optional<CtcPrefixes>> ctc;
  at::Tensor room;  // [N V], of `ctc`
  if (frames != nullptr && options.ctc_weight > 0.0) {
    const at::Tensor logits = host_scores(frames->logits);  // [N, V]
    room = host_room(logits.numel(), frames->logits);
    if (!logits.is_meta()) ctc = make_prefixes(scorer.num_frames(), logits, frames->blank, room);
  }
  at::Tensor scores = scorer.begin({.width = options.width, .max_tokens = longest + 1});
  std::vector<TokenHypothesis> found(static_cast<size_t>(scorer.size()));
  if (scores.is_meta()) {
    scores.reset();
    if (longest > 0) run_dry(scorer, options.width, longest);
    for (size_t i = 0; i < found.size(); ++i)
      found[i].tokens.resize(
          static_cast<size_t>(bounds_of(options, scorer, scorer.num_frames()[i]).most));
    return found;
  }
  std::vector<Beam> beams = make_beams(scorer, options, std::move(ctc));
  while (true) {
    std::vector<int64_t> num_before;
    for (const Beam& beam : beams) num_before.push_back(std::ssize(beam.open()));
    extend_all(beams, scores);
    const std::vector<int32_t> tokens = reorder(scorer, beams, num_before);
    if (tokens.empty()) break;
    scores.reset();
    scores = scorer.step(tokens);
  }
  for (size_t i = 0; i < beams.size(); ++i) found[i] = beams[i].best().value_or(TokenHypothesis{});
  return found;
}

}  // namespace sotto::decode
