// The model card (README.md) for the Hugging Face Hub: front matter that the Hub reads, and for
// people the description, results, usage, training data, procedure and memory use. A pure function
// from facts to text. Unknown facts are omitted, never invented.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sotto/models/model_profile.h"
#include "sotto/train/recognition/evaluation.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

// Size of one epoch: utterances and their duration, or rows of text and their tokens.
struct EpochAmount {
  int64_t num_items = 0;
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
};

// Facts about the run that trained a model; read_run_facts() reads them from its files.
struct RunFacts {
  RunConfig config = {};
  // Number of updates applied to the weights.
  int64_t step = 0;
  std::optional<EpochAmount> epoch = std::nullopt;
  // Evaluation of these weights, or of the last evaluated weights before them, without sentences.
  std::optional<Evaluation> evaluation = std::nullopt;
  int64_t evaluated_step = 0;
  // Peak of the first step, as predicted by the dry run and as measured.
  std::optional<int64_t> planned_peak_bytes = std::nullopt;
  std::optional<int64_t> measured_peak_bytes = std::nullopt;
  // Maximum over all steps up to these weights.
  std::optional<int64_t> largest_peak_bytes = std::nullopt;
};

// Kind of tokenizer in the folder.
enum class CardTokenizer { kNone, kCharacters, kSentencePiece, kByteBpe };

struct ModelFacts {
  // Last component of the repository's or the folder's name.
  std::string title;
  // Repository on the Hub, org/name; empty where not uploaded yet.
  std::string repository = {};
  models::ModelOptions model = {};
  models::ModelProfile profile = {};
  // Width of stored features; 0 for audio and text.
  int64_t feature_dim = 0;
  CardTokenizer tokenizer = CardTokenizer::kNone;
  // Whether a pipeline of transformers loads the folder.
  bool has_pipeline = false;
  // `sotto eval` and `transcribe` accept the folder.
  bool is_checkpoint = false;
  // Given by the user; empty where not given.
  std::vector<std::string> languages = {};
  std::string license = {};
  // The model on the Hub whose weights initialised the run; empty where there is none or it is
  // unknown.
  std::string base_model = {};
  // Absent for weights trained by other programs.
  std::optional<RunFacts> run = std::nullopt;
};

std::string model_card(const ModelFacts& facts);

}  // namespace sotto::train
