// The options by which commands choose how transcripts are found.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "sotto/decode/beam_search.h"

namespace sotto::cli {

struct BeamChoice {
  std::optional<int64_t> width;
  std::string language_model;
  std::optional<double> lm_weight;
  std::optional<double> word_bonus;

  // Adds --beam, --lm, --lm-weight and --word-bonus.
  void add_to(CLI::App& command);

  // Null where no beam is asked for. `max_bytes`: what a search may take. Throws ConfigError for
  // what could not take effect, DataError where the language model cannot be read.
  std::unique_ptr<decode::BeamSearch> open(const data::Tokenizer& tokenizer,
                                           int64_t max_bytes) const;
};

}  // namespace sotto::cli
