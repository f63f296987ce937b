#include "sotto/decode/decoding.h"

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/decode/attended_frames.h"
#include "sotto/decode/ctc_prefix.h"
#include "sotto/decode/host_scores.h"

namespace sotto::decode {

namespace {

using kernels::CtcGreedy;
using models::FrameScores;

TokenSearchOptions token_options(const DecodeOptions& options) {
  TokenSearchOptions made{.width = options.beam,
                          .ctc_weight = options.ctc_weight,
                          .max_tokens_per_frame = options.max_tokens_per_frame,
                          .min_tokens_per_frame = options.min_tokens_per_frame};
  if (options.length_penalty != 0.0) made.length_penalty = options.length_penalty;
  return made;
}

// Calls body(index, logits) with the logits [T, V] of each utterance, on the host.
template <class Body>
void for_each_utterance(const FrameScores& frames, Body body) {
  const at::Tensor logits = host_scores(frames.logits);  // [N, V]
  if (logits.is_meta()) return;
  const float* next = logits.const_data_ptr<float>();
  const std::vector<int64_t>& lengths = frames.packing.lengths();
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto size = static_cast<size_t>(lengths[i] * logits.size(1));
    body(i, std::span(next, size));
    next += size;
  }
}

std::vector<Labels> search_frames(const FrameScores& frames, const DecodingOptions& options) {
  if (options.tokens.width == 1)
    return CtcGreedy::decode(frames.logits, frames.packing, frames.blank);
  std::vector<Labels> labels(frames.packing.lengths().size());
  for_each_utterance(frames, [&](size_t i, std::span<const float> logits) {
    labels[i] = options.frames->decode(logits).front().labels;
  });
  return labels;
}

// Sets the frames of the labels of utterances that CTC can align; returns which.
std::vector<bool> align_by_ctc(const FrameScores& frames, std::vector<Labels>& labels) {
  std::vector<bool> is_aligned(labels.size(), false);
  const int64_t vocabulary = frames.logits.size(1);
  const at::Tensor room = host_room(frames.packing.max_length() * vocabulary, frames.logits);
  for_each_utterance(frames, [&](size_t i, std::span<const float> logits) {
    std::vector<int32_t> tokens;
    for (const CtcGreedy::Label& label : labels[i]) tokens.push_back(label.label);
    const CtcPrefixes ctc(logits, vocabulary, frames.blank,
                          {room.mutable_data_ptr<float>(), logits.size()});
    const std::vector<int64_t> path = ctc.align(tokens);
    is_aligned[i] = path.size() == tokens.size();
    for (size_t n = 0; n < path.size(); ++n) labels[i][n].frame = path[n];
  });
  return is_aligned;
}

// Sets the frames of the labels of the other utterances.
void align_by_attention(models::Scorer& scorer, const std::vector<bool>& is_aligned,
                        std::vector<Labels>& labels) {
  std::vector<std::vector<int32_t>> tokens;
  for (const Labels& of_one : labels) {
    std::vector<int32_t>& own = tokens.emplace_back();
    for (const CtcGreedy::Label& label : of_one) own.push_back(label.label);
  }
  const std::vector<std::vector<int64_t>> frames = attended_frames(scorer, tokens);
  for (size_t i = 0; i < frames.size(); ++i) {
    if (is_aligned[i]) continue;
    for (size_t n = 0; n < frames[i].size(); ++n) labels[i][n].frame = frames[i][n];
  }
}

std::vector<Labels> search_tokens(const models::Recognition& recognition,
                                  const DecodingOptions& options) {
  const FrameScores* frames = recognition.frames ? &*recognition.frames : nullptr;
  models::Scorer& scorer = *recognition.scorer;
  std::vector<Labels> labels;
  for (const TokenHypothesis& best : find_tokens(scorer, options.tokens, frames)) {
    Labels& of_one = labels.emplace_back();
    for (const int32_t token : best.tokens) of_one.push_back({.label = token, .frame = 0});
  }
  if (!options.has_times) return labels;
  std::vector<bool> is_aligned(labels.size(), false);
  if (frames != nullptr) is_aligned = align_by_ctc(*frames, labels);
  // A dry run, in which nothing is aligned, takes the memory of both.
  if (std::ranges::find(is_aligned, false) != is_aligned.end())
    align_by_attention(scorer, is_aligned, labels);
  return labels;
}

std::vector<Labels> search_lattice(models::LatticeScorer& scorer, const DecodingOptions& options) {
  std::vector<Labels> labels;
  for (TransducerHypothesis& best : find_transducer_labels(scorer, options.lattice))
    labels.push_back(std::move(best.labels));
  return labels;
}

}  // namespace

DecodingOptions dry_decoding(const DecodeOptions& options) {
  return {.tokens = token_options(options),
          .lattice = {.width = options.beam, .max_symbols = options.max_symbols}};
}

Decoding::Decoding(const DecodeOptions& options, const data::Tokenizer& tokenizer,
                   const DecodingResources& resources)
    : options_(dry_decoding(options)) {
  std::shared_ptr<const NgramModel> model;
  if (!options.lm.empty())
    model = std::make_shared<const NgramModel>(NgramModel::read(options.lm, resources.progress));
  const WordOptions words{.lm_weight = options.lm_weight, .word_bonus = options.word_bonus};
  if (model) words_ = std::make_unique<const WordScores>(tokenizer, words, model);
  options_.tokens.words = words_.get();
  if (options.beam == 1) return;
  frames_ = std::make_unique<const BeamSearch>(
      tokenizer,
      BeamOptions{.width = options.beam, .words = words, .max_bytes = resources.max_bytes}, model);
  options_.frames = frames_.get();
}

const std::vector<int64_t>& frames_of_search(const models::Recognition& recognition) {
  return recognition.lattice ? recognition.lattice->num_frames() : recognition.scorer->num_frames();
}

std::vector<Labels> find_labels(const models::Recognition& recognition,
                                const DecodingOptions& options) {
  if (recognition.lattice) return search_lattice(*recognition.lattice, options);
  const bool is_by_frames =
      recognition.frames && (!recognition.scorer || options.tokens.ctc_weight == 1.0);
  if (is_by_frames) return search_frames(*recognition.frames, options);
  if (!recognition.scorer) return {};
  return search_tokens(recognition, options);
}

std::optional<TextNormalizer> normalizer_of(const DecodeOptions& options,
                                            const data::Tokenizer& tokenizer) {
  if (options.normalizer == NormalizerKind::kNone) return std::nullopt;
  TextNormalizer::Options made{.kind = options.normalizer,
                               .removes_diacritics = options.remove_diacritics,
                               .splits_letters = options.split_letters};
  if (options.normalizer == NormalizerKind::kEnglish) {
    const data::ByteBpe* model = tokenizer.byte_bpe();
    const std::string* own = model == nullptr ? nullptr : model->content("normalizer.json");
    if (options.spellings.empty() && own == nullptr) {
      throw ConfigError(
          {.attempted = "setting up decode.normalizer: english",
           .found = "no spellings: no normalizer.json came with the tokenizer",
           .expected = "decode.spellings: FILE, British spellings with their American ones",
           .hint = "Every Whisper model on the Hub has a normalizer.json; or choose "
                   "decode.normalizer: basic."});
    }
    made.spellings = options.spellings.empty() ? parse_spellings(*own, "normalizer.json")
                                               : parse_spellings(read_text_file(options.spellings),
                                                                 options.spellings.string());
  }
  return TextNormalizer(std::move(made));
}

std::string text_of(std::span<const CtcGreedy::Label> labels, const data::Tokenizer& tokenizer) {
  std::vector<int32_t> entries;
  for (const CtcGreedy::Label& label : labels) entries.push_back(label.label);
  return tokenizer.decode(entries);
}

}  // namespace sotto::decode
