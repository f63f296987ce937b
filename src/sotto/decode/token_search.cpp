#include "sotto/decode/token_search.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/decode/ctc_prefix.h"
#include "sotto/decode/host_scores.h"
#include "sotto/decode/token_beam.h"

namespace sotto::decode {

namespace {

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

// Returns what of the options is an utterance's own.
TokenBeamInput input_of(const models::Scorer& scorer, const TokenSearchOptions& options, size_t u) {
  TokenBeamInput input{.num_frames = scorer.num_frames()[u], .end_token = scorer.end_token()};
  if (options.prompts == nullptr) {
    input.max_tokens = scorer.max_tokens();
  } else {
    input.num_given = std::ssize(options.prompts->tokens[u]);
  }
  if (options.sampling != nullptr)
    input.draws.emplace(options.sampling->key, options.sampling->utterances[u]);
  return input;
}

std::vector<TokenBeam> make_beams(const models::Scorer& scorer, const TokenSearchOptions& options,
                                  std::vector<std::optional<CtcPrefixes>> ctc) {
  ctc.resize(scorer.num_frames().size());
  std::vector<TokenBeam> beams;
  for (size_t u = 0; u < ctc.size(); ++u) {
    TokenBeamInput input = input_of(scorer, options, u);
    input.ctc = ctc[u];
    beams.emplace_back(options, input);
  }
  return beams;
}

// Continues all open hypotheses; scores [H, V] of them, utterance by utterance, are overwritten.
void extend_all(std::vector<TokenBeam>& beams, const at::Tensor& scores) {
  const at::Tensor on_host = scores.to(at::kCPU, at::kFloat).contiguous();
  const int64_t vocabulary = on_host.size(1);
  std::vector<int64_t> starts = {0};
  for (const TokenBeam& beam : beams) starts.push_back(starts.back() + std::ssize(beam.open()));
  at::parallel_for(0, std::ssize(beams), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      TokenBeam& beam = beams[static_cast<size_t>(i)];
      if (beam.open().empty()) continue;
      const int64_t first = starts[static_cast<size_t>(i)];
      beam.extend({on_host.mutable_data_ptr<float>() + first * vocabulary,
                   static_cast<size_t>(std::ssize(beam.open()) * vocabulary)});
    }
  });
}

// Tells the scorer which hypotheses continue. Returns the last token of each, none if all have
// ended.
// `num_before`: open hypotheses of each utterance before they were continued.
std::vector<int32_t> reorder(models::Scorer& scorer, const std::vector<TokenBeam>& beams,
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

// Returns log-probabilities [U, V] after the given parts of the prompts: `limits` without them.
at::Tensor begin_after(models::Scorer& scorer, const TokenPrompts& prompts, int64_t num_given,
                       models::Scorer::Limits limits) {
  SOTTO_ASSERT(std::ssize(prompts.tokens) == scorer.size(), "prompts of {} utterances",
               prompts.tokens.size());
  std::vector<std::vector<int32_t>> given;
  for (const std::vector<int32_t>& tokens : prompts.tokens)
    given.emplace_back(tokens.begin(), tokens.begin() + num_given);
  limits.prompts = given;
  return scorer.begin(limits);
}

// Returns the log-probabilities [U, V] of the first token of each utterance after its prompt, and
// measures what the prompts say.
at::Tensor begin_search(models::Scorer& scorer, const TokenPrompts& prompts,
                        models::Scorer::Limits limits, std::vector<double>& measured) {
  const auto length = static_cast<int64_t>(prompts.tokens.front().size());
  const int64_t num_before = prompts.measured ? prompts.num_before : length;
  // What follows the measured place is given like tokens that were found.
  limits.max_tokens += length - num_before;
  at::Tensor scores = begin_after(scorer, prompts, num_before, limits);
  if (prompts.measured && !scores.is_meta()) {
    const at::Tensor on_host = scores.to(at::kCPU, at::kFloat).contiguous();  // [U, V]
    for (size_t u = 0; u < measured.size(); ++u) {
      const auto place = static_cast<int64_t>(u) * on_host.size(1) + *prompts.measured;
      measured[u] = std::exp(double{on_host.const_data_ptr<float>()[place]});
    }
  }
  for (int64_t i = num_before; i < length; ++i) {
    std::vector<int32_t> next;
    for (const std::vector<int32_t>& tokens : prompts.tokens)
      next.push_back(tokens[static_cast<size_t>(i)]);
    scores.reset();
    scores = scorer.step(next);
  }
  return scores;
}

// Drops the hypotheses of utterances that are not searched.
void stop_others(const TokenSearchOptions& options, std::vector<TokenBeam>& beams) {
  for (size_t u = 0; u < options.is_searched.size(); ++u)
    if (!options.is_searched[u]) beams[u].stop();
}

// Searches from the log-probabilities of the first tokens.
void search(models::Scorer& scorer, const TokenSearchOptions& options, at::Tensor scores,
            std::vector<TokenBeam>& beams) {
  for (bool is_first = true;; is_first = false) {
    std::vector<int64_t> num_before;
    for (const TokenBeam& beam : beams) num_before.push_back(std::ssize(beam.open()));
    extend_all(beams, scores);
    if (is_first) stop_others(options, beams);
    const std::vector<int32_t> tokens = reorder(scorer, beams, num_before);
    if (tokens.empty()) return;
    scores.reset();
    scores = scorer.step(tokens);
  }
}

}  // namespace

std::vector<TokenHypothesis> find_tokens(models::Scorer& scorer, const TokenSearchOptions& options,
                                         const models::FrameScores* frames) {
  SOTTO_ASSERT(options.width >= 1, "a beam of {}", options.width);
  std::vector<int64_t> most;
  for (size_t u = 0; u < static_cast<size_t>(scorer.size()); ++u)
    most.push_back(most_tokens(options, input_of(scorer, options, u)));
  const int64_t longest = most.empty() ? 0 : std::ranges::max(most);
  std::vector<std::optional<CtcPrefixes>> ctc;
  at::Tensor room;  // [N V], of `ctc`
  if (frames != nullptr && options.ctc_weight > 0.0) {
    const at::Tensor logits = host_scores(frames->logits);  // [N, V]
    room = host_room(logits.numel(), frames->logits);
    if (!logits.is_meta()) ctc = make_prefixes(scorer.num_frames(), logits, frames->blank, room);
  }
  const models::Scorer::Limits limits{.width = options.width, .max_tokens = longest + 1};
  std::vector<TokenHypothesis> found(most.size());
  std::vector<double> measured(most.size(), 0.0);
  at::Tensor scores = options.prompts == nullptr
                          ? scorer.begin(limits)
                          : begin_search(scorer, *options.prompts, limits, measured);
  if (scores.is_meta()) {
    scores.reset();
    if (longest > 0) run_dry(scorer, options.width, longest);
    for (size_t u = 0; u < found.size(); ++u) found[u].tokens.resize(static_cast<size_t>(most[u]));
    return found;
  }
  std::vector<TokenBeam> beams = make_beams(scorer, options, std::move(ctc));
  search(scorer, options, std::move(scores), beams);
  for (size_t u = 0; u < beams.size(); ++u) {
    const bool is_searched = options.is_searched.empty() || options.is_searched[u];
    if (is_searched) found[u] = beams[u].best().value_or(TokenHypothesis{});
    found[u].measured_probability = measured[u];
  }
  return found;
}

std::vector<int32_t> find_first_token(models::Scorer& scorer, const TokenPrompts& prompts,
                                      std::span<const int32_t> among) {
  SOTTO_ASSERT(!among.empty(), "no tokens to choose from");
  std::vector<int32_t> found(static_cast<size_t>(scorer.size()), among.front());
  const auto length = static_cast<int64_t>(prompts.tokens.front().size());
  const at::Tensor scores = begin_after(scorer, prompts, length, {});  // [U, V]
  if (scores.is_meta()) return found;
  const at::Tensor on_host = scores.to(at::kCPU, at::kFloat).contiguous();
  for (size_t u = 0; u < found.size(); ++u) {
    const float* row = on_host.const_data_ptr<float>() + static_cast<int64_t>(u) * on_host.size(1);
    for (const int32_t token : among)
      if (row[token] > row[found[u]]) found[u] = token;
  }
  return found;
}

}  // namespace sotto::decode
