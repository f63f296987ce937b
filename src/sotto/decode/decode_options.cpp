#include "sotto/decode/decode_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "sotto/core/error.h"
#include "sotto/core/files/file_list.h"
#include "sotto/core/files/input_file.h"
#include "sotto/core/hash.h"

namespace sotto::decode {

void DecodeOptions::visit(OptionVisitor& visitor) {
  visitor.value("beam", beam, "hypotheses kept per utterance; 1: greedy",
                {.min = 1, .max = kMaxBeam});
  visitor.value("ctc_weight", ctc_weight,
                "share of CTC where a network has an attention decoder too; 1: CTC alone",
                {.min = 0, .max = 1});
  visitor.value("max_symbols", max_symbols, "most labels of a transducer at one frame",
                {.min = 1, .max = 1'000});
  visitor.value("max_tokens_per_frame", max_tokens_per_frame,
                "longest output of an attention decoder, in tokens per encoder frame",
                {.max = kMostTokensPerFrame, .above = 0});
  visitor.value("min_tokens_per_frame", min_tokens_per_frame,
                "shortest output of an attention decoder, in tokens per encoder frame",
                {.min = 0, .max = kMostTokensPerFrame});
  visitor.value("length_penalty", length_penalty,
                "exponent of the length that divides scores of an attention decoder; 0: none",
                {.min = -10, .max = 10});
  visitor.value("lm", lm, "word language model in ARPA format; empty: none");
  visitor.value("lm_weight", lm_weight, "weight of the language model", {.min = 0});
  visitor.value("word_bonus", word_bonus, "bonus per word, with a language model");
  visitor.choice("normalizer", normalizer,
                 "what evaluations do to texts before they compare them, as Whisper's do",
                 kNormalizerKinds);
  visitor.value("spellings", spellings,
                "normalizer.json of a Whisper model, for english; empty: that of the tokenizer");
  visitor.value("remove_diacritics", remove_diacritics, "basic also removes marks from letters");
  visitor.value("split_letters", split_letters, "basic makes each character a word");
  visitor.group("whisper", whisper, "for networks with Whisper's tokens");
}

void DecodeOptions::validate() const {
  if (min_tokens_per_frame > max_tokens_per_frame) {
    throw ConfigError(
        {.attempted = "checking the settings of decoding",
         .found = fmt::format("decode.min_tokens_per_frame {} above max_tokens_per_frame {}",
                              min_tokens_per_frame, max_tokens_per_frame),
         .expected = "a minimum that is not above the maximum",
         .hint = "Lower decode.min_tokens_per_frame, or raise the maximum."});
  }
  const auto refuse = [](const char* found, const char* expected) {
    throw ConfigError({.attempted = "checking the settings of decoding",
                       .found = fmt::format("{}, which has no effect", found),
                       .expected = expected,
                       .hint = "Remove the setting, or choose another normalizer."});
  };
  if ((remove_diacritics || split_letters) && normalizer != NormalizerKind::kBasic)
    refuse("decode.remove_diacritics or split_letters without decode.normalizer: basic",
           "decode.normalizer: basic");
  if (!spellings.empty() && normalizer != NormalizerKind::kEnglish)
    refuse("decode.spellings without decode.normalizer: english", "decode.normalizer: english");
}

namespace {

std::string fingerprint_text(const WhisperDecodeOptions& options) {
  return fmt::format(" whisper {} {} {} {} [{}] {} {} {} {}", options.language,
                     name_of(options.task, data::kWhisperTasks), options.timestamps,
                     options.max_length, fmt::join(options.temperatures, " "),
                     options.compression_ratio_threshold, options.logprob_threshold,
                     options.no_speech_threshold, options.condition_on_previous_text);
}

}  // namespace

uint64_t fingerprint(const DecodeOptions& options) {
  if (options == DecodeOptions()) return 0;
  // What a file holds, wherever it lies.
  const auto checksum_of = [](const std::filesystem::path& path, const char* what) {
    return path.empty() ? 0 : sum_of(InputFile::open(path, what)).checksum;
  };
  const uint64_t lm = checksum_of(options.lm, "a language model");
  std::string text = fmt::format("{} {} {} {} {} {} {}", options.beam, options.ctc_weight,
                                 options.max_tokens_per_frame, options.min_tokens_per_frame, lm,
                                 options.lm_weight, options.word_bonus);
  // Only for a transducer: hashes of other searches are in run folders.
  if (options.max_symbols != DecodeOptions().max_symbols)
    text += fmt::format(" {}", options.max_symbols);
  if (options.normalizer != NormalizerKind::kNone)
    text += fmt::format(" {} {} {} {}", name_of(options.normalizer, kNormalizerKinds),
                        checksum_of(options.spellings, "spellings"), options.remove_diacritics,
                        options.split_letters);
  if (options.length_penalty != 0.0) text += fmt::format(" length {}", options.length_penalty);
  if (options.whisper != WhisperDecodeOptions()) text += fingerprint_text(options.whisper);
  return fnv1a(text);
}

SearchKind search_kind(const models::Outline& outline, const DecodeOptions& options) {
  if (outline.scores_lattice) return SearchKind::kLattice;
  if (!outline.decoder) return outline.scores_frames ? SearchKind::kFrames : SearchKind::kNone;
  if (!outline.scores_frames || options.ctc_weight == 0.0) return SearchKind::kTokens;
  return options.ctc_weight == 1.0 ? SearchKind::kFrames : SearchKind::kJoint;
}

std::string describe_heads(const models::Outline& outline) {
  if (outline.scores_lattice) return "a transducer";
  return outline.decoder ? "an attention decoder" : "CTC";
}

void check_effects(const DecodeOptions& options, const models::Outline& outline) {
  const DecodeOptions defaults;
  const auto refuse = [](const std::string& found, const std::string& expected) {
    throw ConfigError({.attempted = "checking the settings of decoding",
                       .found = found + ", which has no effect",
                       .expected = expected,
                       .hint = "Remove the setting, or choose another search."});
  };
  const SearchKind kind = search_kind(outline, options);
  if (kind == SearchKind::kNone) {
    if (options != defaults)
      refuse("a setting of decode for a language model", "none: it does not transcribe");
    return;
  }
  if (options.ctc_weight != defaults.ctc_weight && !(outline.decoder && outline.scores_frames)) {
    refuse(fmt::format("decode.ctc_weight {} for a network with {} alone", options.ctc_weight,
                       describe_heads(outline)),
           "a network with CTC and an attention decoder");
  }
  const bool has_bounds = options.max_tokens_per_frame != defaults.max_tokens_per_frame ||
                          options.min_tokens_per_frame != defaults.min_tokens_per_frame;
  const bool has_tokens = kind == SearchKind::kTokens || kind == SearchKind::kJoint;
  if (has_bounds && !has_tokens)
    refuse(fmt::format("decode.max_tokens_per_frame or min_tokens_per_frame for {}",
                       kind == SearchKind::kLattice ? "a transducer" : "CTC"),
           "a search over an attention decoder");
  if (options.length_penalty != 0.0 && !has_tokens)
    refuse(fmt::format("decode.length_penalty {} for {}", options.length_penalty,
                       kind == SearchKind::kLattice ? "a transducer" : "CTC"),
           "a search over an attention decoder");
  if (options.length_penalty != 0.0 && options.beam == 1)
    refuse(fmt::format("decode.length_penalty {} with decode.beam 1", options.length_penalty),
           "a beam of 2 or more, such as decode.beam: 5");
  if (options.whisper != defaults.whisper && !outline.has_whisper_tokens)
    refuse(fmt::format("a setting of decode.whisper for {}", describe_heads(outline)),
           "a network with Whisper's tokens");
  if (options.max_symbols != defaults.max_symbols && kind != SearchKind::kLattice)
    refuse(
        fmt::format("decode.max_symbols {} for {}", options.max_symbols, describe_heads(outline)),
        "a transducer");
  if (!options.lm.empty() && kind == SearchKind::kLattice)
    refuse("decode.lm for a transducer", "a network with CTC or an attention decoder");
  if (!options.lm.empty() && options.beam == 1)
    refuse("decode.lm with decode.beam 1", "a beam of 2 or more, such as decode.beam: 16");
  if (options.lm.empty() &&
      (options.lm_weight != defaults.lm_weight || options.word_bonus != defaults.word_bonus))
    refuse("decode.lm_weight or decode.word_bonus without decode.lm", "a language model");
}

}  // namespace sotto::decode
