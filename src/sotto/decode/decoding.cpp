#include "sotto/decode/decoding.h"

#include <ATen/ATen.h>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

using kernels::CtcGreedy;
using Labels = std::vector<CtcGreedy::Label>;

std::vector<Labels> search_frames(const models::FrameScores& frames, const BeamSearch& beam) {
  std::vector<Labels> labels;
  const at::Tensor logits = frames.logits.to(at::kCPU, at::kFloat);  // [N, V]
  const float* next = logits.const_data_ptr<float>();
  for (const int64_t num_frames : frames.packing.lengths()) {
    const auto size = static_cast<size_t>(num_frames * logits.size(1));
    labels.push_back(beam.decode({next, size}).front().labels);
    next += size;
  }
  return labels;
}

std::vector<Labels> search_tokens(models::Scorer& scorer, const TokenSearchOptions& options) {
  std::vector<Labels> labels;
  for (const TokenHypothesis& best : find_tokens(scorer, options)) {
    Labels& of_one = labels.emplace_back();
    // A decoder gives no times.
    for (const int32_t token : best.tokens) of_one.push_back({.label = token, .frame = 0});
  }
  return labels;
}

}  // namespace

std::vector<Labels> find_labels(const models::Recognition& recognition,
                                const DecodingOptions& options) {
  if (recognition.frames) {
    const models::FrameScores& frames = *recognition.frames;
    if (options.beam != nullptr && !frames.logits.is_meta())
      return search_frames(frames, *options.beam);
    return CtcGreedy::decode(frames.logits, frames.packing, frames.blank);
  }
  if (!recognition.scorer) return {};
  if (options.beam != nullptr)
    throw ConfigError({.attempted = "decoding with a beam search over frames",
                       .found = "a network with an attention decoder",
                       .expected = "one with a CTC head",
                       .hint = "Leave --beam out."});
  return search_tokens(*recognition.scorer, options.tokens);
}

std::string text_of(std::span<const CtcGreedy::Label> labels, const data::Tokenizer& tokenizer) {
  std::vector<int32_t> entries;
  for (const CtcGreedy::Label& label : labels) entries.push_back(label.label);
  return tokenizer.decode(entries);
}

}  // namespace sotto::decode
