// The card of a model for the Hugging Face Hub, its README.md: front matter that the Hub reads, and
// for people what the model is, how good it is, how it is used, what it was trained on and how, and
// what memory that took. Facts in, text out. What is not known is left out, never made up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sotto/models/model_profile.h"
#include "sotto/train/recognition/evaluation.h"
#include "sotto/train/step/run_config.h"

namespace sotto::train {

// What one epoch had: utterances and their length, or rows of text and their tokens.
struct EpochAmount {
  int64_t num_items = 0;
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
};

// What is known of the run that trained a model; read_run_facts() reads it out of its files.
struct RunFacts {
  RunConfig config = {};
  // Updates that the weights have had.
  int64_t step = 0;
  std::optional<EpochAmount> epoch = std::nullopt;
  // Of these weights, or of the last ones before them that were evaluated. Without sentences.
  std::optional<Evaluation> evaluation = std::nullopt;
  int64_t evaluated_step = 0;
  // Of the first step as the dry run had it, and as it was.
  std::optional<int64_t> planned_peak_bytes = std::nullopt;
  std::optional<int64_t> measured_peak_bytes = std::nullopt;
  // Of all steps until these weights.
  std::optional<int64_t> largest_peak_bytes = std::nullopt;
};

// What the folder has for texts.
enum class CardTokenizer { kNone, kCharacters, kSentencePiece };

struct ModelFacts {
  // The last part of the repository's or the folder's name.
  std::string title;
  // Where it goes on the Hub, org/name; empty: nowhere yet.
  std::string repository = {};
  models::ModelOptions model = {};
  models::ModelProfile profile = {};
  // Width of stored features; 0 for audio and for text.
  int64_t feature_dim = 0;
  CardTokenizer tokenizer = CardTokenizer::kNone;
  // `sotto eval` and `transcribe` take the folder.
  bool is_checkpoint = false;
  // Given by the user, and nothing where they are not.
  std::vector<std::string> languages = {};
  std::string license = {};
  // The model on the Hub whose weights the run began with; empty: none, or not known.
  std::string base_model = {};
  // Absent for weights that others trained.
  std::optional<RunFacts> run = std::nullopt;
};

std::string model_card(const ModelFacts& facts);

}  // namespace sotto::train
