// Command line options that select the decoding method.
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

  // Returns null where no beam is requested. `max_bytes`: the memory limit of a search. Throws
  // ConfigError for options without effect, DataError where the language model cannot be read.
  std::unique_ptr<decode::BeamSearch> open(const data::Tokenizer& tokenizer,
                                           int64_t max_bytes) const;
};

}  // namespace sotto::cli
