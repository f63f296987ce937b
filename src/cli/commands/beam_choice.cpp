#include "cli/commands/beam_choice.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "cli/commands/number_checks.h"
#include "cli/views/progress.h"
#include "sotto/core/error.h"

namespace sotto::cli {

void BeamChoice::add_to(CLI::App& command) {
  command.add_option("--beam", width, "Beam width; without it, decoding is greedy")
      ->check(CLI::Range(int64_t{1}, decode::BeamOptions::kMaxWidth));
  command.add_option("--lm", language_model,
                     "Word language model for the beam search, in ARPA format");
  command.add_option("--lm-weight", lm_weight, "Weight of the language model (0.5)")
      ->check(not_negative());
  command.add_option("--word-bonus", word_bonus, "Bonus per word (1.0)")->check(finite());
}

std::unique_ptr<decode::BeamSearch> BeamChoice::open(const data::Tokenizer& tokenizer,
                                                     int64_t max_bytes) const {
  const bool has_model = !language_model.empty();
  if (!has_model && (lm_weight || word_bonus)) {
    throw ConfigError({.attempted = "choosing a beam search",
                       .found = "--lm-weight or --word-bonus without --lm",
                       .expected = "--lm with a language model"});
  }
  if (!width && !has_model) return nullptr;
  decode::BeamOptions options;
  options.max_bytes = max_bytes;
  options.width = width.value_or(options.width);
  options.lm_weight = lm_weight.value_or(options.lm_weight);
  options.word_bonus = word_bonus.value_or(options.word_bonus);
  std::shared_ptr<const decode::NgramModel> model;
  if (has_model) {
    std::error_code ignored;
    const auto total = static_cast<int64_t>(std::filesystem::file_size(language_model, ignored));
    Progress progress("reading the language model");
    model = std::make_shared<const decode::NgramModel>(decode::NgramModel::read(
        language_model, [&](int64_t bytes) { progress.show(bytes >> 20, total >> 20, "MiB"); }));
  }
  return std::make_unique<decode::BeamSearch>(tokenizer, options, std::move(model));
}

}  // namespace sotto::cli
