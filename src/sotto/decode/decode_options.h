// Settings of the search for transcripts: the configuration's `decode:`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "sotto/core/config/options.h"
#include "sotto/decode/text_normalizer.h"
#include "sotto/decode/whisper_options.h"
#include "sotto/models/outline.h"

namespace sotto::decode {

struct DecodeOptions {
  static constexpr int64_t kMaxBeam = 10'000;
  // Characters at eight frames of subsampling are more than one per frame.
  static constexpr double kMostTokensPerFrame = 10.0;

  // Hypotheses kept per utterance; 1: greedy.
  int64_t beam = 1;
  // Share of CTC in the score of a hypothesis, for a network with CTC and an attention decoder; 0:
  // the decoder alone, 1: CTC alone.
  double ctc_weight = 0.3;
  // Maximum number of labels of a transducer at one frame.
  int64_t max_symbols = 10;
  // Bounds of the number of tokens of an attention decoder, per frame of its encoder.
  double max_tokens_per_frame = 1.0;
  double min_tokens_per_frame = 0.0;
  // Exponent of the number of tokens by which the score of an attention decoder's hypothesis is
  // divided, as in transformers (where it is 1 by default); 0: no division.
  double length_penalty = 0.0;
  // Word language model in ARPA format; empty: none. Its weight, and the bonus per word.
  std::filesystem::path lm = {};
  double lm_weight = 0.5;
  double word_bonus = 1.0;
  // What an evaluation does to references and hypotheses before it compares them.
  NormalizerKind normalizer = NormalizerKind::kNone;
  // For `english`: normalizer.json of a Whisper model; empty: the one that came with the tokenizer.
  std::filesystem::path spellings = {};
  // For `basic`.
  bool remove_diacritics = false;
  bool split_letters = false;
  // For a network with Whisper's tokens.
  WhisperDecodeOptions whisper = {};

  void visit(OptionVisitor& visitor);
  void validate() const;

  friend bool operator==(const DecodeOptions&, const DecodeOptions&) = default;
};

// Returns 0 for the defaults, else a hash of the settings: results of different searches and of
// texts that are normalised differently are not compared.
uint64_t fingerprint(const DecodeOptions& options);

// How a network is searched.
enum class SearchKind {
  kNone,    // a language model: it does not transcribe
  kFrames,  // scores of frames, for CTC
  kTokens,  // an attention decoder
  kJoint,   // an attention decoder with the scores of frames
  kLattice  // a transducer
};
SearchKind search_kind(const models::Outline& outline, const DecodeOptions& options);

// Describes what is searched: "CTC", "an attention decoder", "a transducer".
std::string describe_heads(const models::Outline& outline);

// Throws ConfigError for a setting that has no effect on this network.
void check_effects(const DecodeOptions& options, const models::Outline& outline);

}  // namespace sotto::decode
