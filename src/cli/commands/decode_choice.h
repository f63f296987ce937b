// Command line options that change the search for transcripts.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sotto/decode/decode_options.h"
#include "sotto/train/recognition/recogniser.h"

namespace sotto::cli {

struct DecodeChoice {
  std::optional<int64_t> beam;
  std::optional<double> ctc_weight;
  std::optional<std::string> language_model;
  std::optional<double> lm_weight;
  std::optional<double> word_bonus;

  // Adds --beam, --ctc-weight, --lm, --lm-weight and --word-bonus.
  void add_to(CLI::App& command);

  bool is_empty() const {
    return !beam && !ctc_weight && !language_model && !lm_weight && !word_bonus;
  }

  // Sets the search `options`, which includes the settings of `overrides`, with these changes, and
  // shows how the language model is read. Throws ConfigError for options without effect.
  void apply(train::Recogniser& recogniser, const decode::DecodeOptions& options,
             const std::vector<std::string>& overrides) const;

 private:
  decode::DecodeOptions applied_to(decode::DecodeOptions options, bool is_beam_set) const;
};

}  // namespace sotto::cli
