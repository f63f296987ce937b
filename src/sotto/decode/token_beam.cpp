#include "sotto/decode/token_beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// Tokens by which a hypothesis is continued, in addition to as many as the beam is wide.
constexpr int64_t kMoreTokens = 8;

int64_t rounded_up(double per_frame, int64_t num_frames) {
  return static_cast<int64_t>(std::ceil(per_frame * static_cast<double>(num_frames) - 1e-9));
}

// Returns the maximum by the number of positions.
int64_t most_by_positions(const TokenSearchOptions& options, const TokenBeamInput& utterance) {
  if (options.max_positions == 0) return std::numeric_limits<int64_t>::max();
  SOTTO_ASSERT(utterance.num_given < options.max_positions,
               "a prompt of {} tokens for {} positions", utterance.num_given,
               options.max_positions);
  return options.max_positions - utterance.num_given;
}

// Returns the log of the sum of the probabilities.
double log_mass_of(std::span<const float> scores) {
  const float most = *std::ranges::max_element(scores);
  if (most == -std::numeric_limits<float>::infinity()) return kImpossible;
  double sum = 0.0;
  for (const float score : scores) sum += std::exp(double{score} - double{most});
  return double{most} + std::log(sum);
}

// Returns the entry at which the sum of the weights exceeds a uniform number's share of it.
int32_t draw(std::span<const double> weights, double uniform) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0.0;
  int32_t last = 0;
  for (size_t token = 0; token < weights.size(); ++token) {
    if (weights[token] <= 0.0) continue;
    last = static_cast<int32_t>(token);
    sum += weights[token];
    if (sum > uniform * total) break;
  }
  return last;
}

}  // namespace

int64_t most_tokens(const TokenSearchOptions& options, const TokenBeamInput& utterance) {
  return std::min({rounded_up(options.max_tokens_per_frame, utterance.num_frames),
                   utterance.max_tokens, most_by_positions(options, utterance)});
}

TokenBeam::TokenBeam(const TokenSearchOptions& options, const TokenBeamInput& input)
    : options_(options),
      input_(input),
      fewest_(std::min(rounded_up(options.min_tokens_per_frame, input_.num_frames),
                       most_tokens(options, input_))),
      most_(most_tokens(options, input_)),
      fills_positions_(most_ == most_by_positions(options, input_)) {
  SOTTO_ASSERT(options.sampling == nullptr || (options.width == 1 && input_.draws),
               "tokens are drawn for one hypothesis, not {}", options.width);
  Open& first = open_.emplace_back();
  if (input_.ctc) first.ctc = input_.ctc->begin();
  if (has_words()) first.words = options.words->begin();
}

// Ties are resolved by order.
bool TokenBeam::is_better(const Continuation& a, const Continuation& b) {
  return std::tuple(-a.score, a.source, a.token) < std::tuple(-b.score, b.source, b.token);
}

size_t TokenBeam::num_considered() const {
  return static_cast<size_t>(options_.length_penalty ? 2 * options_.width : options_.width);
}

void TokenBeam::extend(std::span<float> scores) {
  const size_t vocabulary = scores.size() / open_.size();
  log_mass_.assign(open_.size(), 0.0);
  std::vector<Continuation> all;
  for (size_t source = 0; source < open_.size(); ++source) {
    const auto row = scores.subspan(source * vocabulary, vocabulary);
    if (options_.rules != nullptr) {
      options_.rules->apply(open_[source].tokens, row);
      const double mass = log_mass_of(row);
      if (mass > kImpossible) log_mass_[source] = mass;
    }
    add_continuations(source, row, all);
    drop_worst(all);
  }
  const size_t count = std::min(all.size(), num_considered());
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(count), is_better);
  all.resize(count);
  // Nothing can follow: the best so far is all there is.
  if (all.empty() && !best_) best_ = {.tokens = open_.front().tokens, .score = open_.front().score};
  const auto width = static_cast<size_t>(options_.width);
  std::vector<Open> next;
  sources_.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    if (ends(all[i])) {
      if (i < width) keep_ended(all[i]);
      continue;
    }
    if (next.size() == width) continue;
    next.push_back(continued(all[i]));
    sources_.push_back(all[i].source);
  }
  open_ = std::move(next);
  drop_hopeless();
}

void TokenBeam::stop() {
  open_.clear();
  sources_.clear();
}

void TokenBeam::drop_worst(std::vector<Continuation>& all) const {
  if (all.size() <= 2 * num_considered()) return;
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(num_considered());
  std::ranges::nth_element(all, end, is_better);
  all.erase(end, all.end());
}

// The end counts as one from the fewest tokens on, and is the only one after the most.
void TokenBeam::add_continuations(size_t source, std::span<const float> scores,
                                  std::vector<Continuation>& all) {
  const auto num_tokens = static_cast<int64_t>(open_[source].tokens.size());
  const bool is_most = num_tokens >= most_;
  if (options_.sampling != nullptr && !is_most) {
    add_drawn(source, scores, all);
    return;
  }
  if (num_tokens >= fewest_)
    add({.source = source, .token = input_.end_token},
        scores[static_cast<size_t>(input_.end_token)], all);
  if (is_most) return;
  for (const int32_t token : likeliest(scores))
    add({.source = source, .token = token}, scores[static_cast<size_t>(token)], all);
}

std::vector<int32_t> TokenBeam::likeliest(std::span<const float> scores) const {
  std::vector<int32_t> tokens(scores.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::erase(tokens, input_.end_token);
  const size_t wanted =
      std::max(static_cast<size_t>(options_.width + kMoreTokens), num_considered());
  const size_t count = std::min(tokens.size(), wanted);
  std::ranges::partial_sort(tokens, tokens.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](int32_t a, int32_t b) {
                              const float of_a = scores[static_cast<size_t>(a)];
                              const float of_b = scores[static_cast<size_t>(b)];
                              return of_a > of_b || (of_a == of_b && a < b);
                            });
  tokens.resize(count);
  return tokens;
}

void TokenBeam::add(Continuation to, float log_probability, std::vector<Continuation>& all) const {
  const Open& open = open_[to.source];
  const bool is_end = to.token == input_.end_token;
  to.attention = open.attention + double{log_probability};
  to.allowed = open.allowed + double{log_probability} - log_mass_[to.source];
  to.score = to.attention;
  if (input_.ctc) {
    const double of_ctc =
        is_end ? input_.ctc->finish(open.ctc) : input_.ctc->score(open.ctc, to.token);
    to.score = (1.0 - options_.ctc_weight) * to.attention + options_.ctc_weight * of_ctc;
  }
  if (has_words()) to.score += words_after(open, to.token).given;
  // An impossible end still ends a hypothesis: it may be the only way on.
  const bool is_possible = to.score > kImpossible;
  if (!is_possible && !is_end) return;
  if (!is_possible) to.score = kImpossible;
  all.push_back(to);
}

void TokenBeam::add_drawn(size_t source, std::span<const float> scores,
                          std::vector<Continuation>& all) {
  const auto num_tokens = static_cast<int64_t>(open_[source].tokens.size());
  const auto end = static_cast<size_t>(input_.end_token);
  const double most = double{*std::ranges::max_element(scores)};
  std::vector<double> weights(scores.size(), 0.0);
  for (size_t token = 0; token < scores.size(); ++token) {
    if (token == end && num_tokens < fewest_) continue;
    const double score = double{scores[token]};
    if (score > kImpossible)
      weights[token] = std::exp((score - most) / options_.sampling->temperature);
  }
  // 53 bits: a vocabulary may have entries rarer than a float's steps.
  const auto n = static_cast<uint64_t>(num_tokens);
  const uint64_t bits =
      (uint64_t{input_.draws->bits(2 * n)} << 32 | input_.draws->bits(2 * n + 1)) >> 11;
  const int32_t token = draw(weights, std::ldexp(static_cast<double>(bits), -53));
  add({.source = source, .token = token}, scores[static_cast<size_t>(token)], all);
}

WordScores::State TokenBeam::words_after(const Open& open, int32_t token) const {
  WordScores::State words = open.words;
  if (token == input_.end_token) {
    options_.words->finish(words);
  } else {
    options_.words->add(words, token);
  }
  return words;
}

TokenBeam::Open TokenBeam::continued(const Continuation& by) const {
  const Open& from = open_[by.source];
  Open to{
      .tokens = from.tokens, .attention = by.attention, .score = by.score, .allowed = by.allowed};
  to.tokens.push_back(by.token);
  if (input_.ctc) to.ctc = input_.ctc->extend(from.ctc, by.token);
  if (has_words()) to.words = words_after(from, by.token);
  return to;
}

bool TokenBeam::ends(const Continuation& last) const {
  if (last.token == input_.end_token) return true;
  return fills_positions_ && std::ssize(open_[last.source].tokens) + 1 == most_;
}

void TokenBeam::keep_ended(const Continuation& last) {
  TokenHypothesis hypothesis{.tokens = open_[last.source].tokens, .score = last.score};
  if (last.token != input_.end_token) hypothesis.tokens.push_back(last.token);
  const double num_tokens = static_cast<double>(open_[last.source].tokens.size() + 1);
  hypothesis.mean_log_probability = last.allowed / num_tokens;
  if (options_.length_penalty) hypothesis.score /= std::pow(num_tokens, *options_.length_penalty);
  ++num_ended_;
  if (hypothesis.score > kImpossible) {
    const auto place = std::ranges::lower_bound(ended_, hypothesis.score, std::ranges::greater());
    ended_.insert(place, hypothesis.score);
    ended_.resize(std::min(ended_.size(), static_cast<size_t>(options_.width)));
  }
  if (!best_ || hypothesis.score > best_->score) best_ = std::move(hypothesis);
}

// Where scores never increase, a hypothesis below an ended one stays below it. Where they may, none
// is dropped until as many have ended as the beam is wide.
void TokenBeam::drop_hopeless() {
  if (open_.empty() || !best_) return;
  if (options_.length_penalty) {
    const double length =
        std::pow(static_cast<double>(open_.front().tokens.size()), *options_.length_penalty);
    if (std::ssize(ended_) == options_.width && open_.front().score / length <= ended_.back())
      stop();
    return;
  }
  const bool may_increase = has_words() && options_.words->may_increase();
  if (may_increase && num_ended_ < options_.width) return;
  size_t kept = 0;
  for (size_t i = 0; i < open_.size(); ++i) {
    if (open_[i].score <= best_->score) continue;
    if (kept != i) open_[kept] = std::move(open_[i]);
    sources_[kept++] = sources_[i];
  }
  open_.resize(kept);
  sources_.resize(kept);
}

}  // namespace sotto::decode
