#include "cli/commands/decode_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/commands/number_checks.h"
#include "cli/views/progress.h"
#include "sotto/core/error.h"

namespace sotto::cli {

namespace {

// Beam of a language model where none is given.
constexpr int64_t kBeamWithModel = 16;

}  // namespace

void DecodeChoice::add_to(CLI::App& command) {
  command.add_option("--beam", beam, "Beam width; 1: greedy")
      ->check(CLI::Range(int64_t{1}, decode::DecodeOptions::kMaxBeam));
  command
      .add_option("--ctc-weight", ctc_weight,
                  "Share of CTC for a network with an attention decoder too; 1: CTC alone")
      ->check(between(0.0, 1.0));
  command.add_option("--lm", language_model,
                     "Word language model for the beam search, in ARPA format; '' for none");
  command.add_option("--lm-weight", lm_weight, "Weight of the language model (0.5)")
      ->check(not_negative());
  command.add_option("--word-bonus", word_bonus, "Bonus per word (1.0)")->check(finite());
}

decode::DecodeOptions DecodeChoice::applied_to(decode::DecodeOptions options,
                                               bool is_beam_set) const {
  const auto refuse = [](const char* found, const char* expected) {
    throw ConfigError({.attempted = "choosing a beam search",
                       .found = found,
                       .expected = expected,
                       .hint = "Example: --lm words.arpa --beam 16."});
  };
  if (language_model) {
    options.lm = *language_model;
    if (options.lm.empty()) {
      options.lm_weight = decode::DecodeOptions().lm_weight;
      options.word_bonus = decode::DecodeOptions().word_bonus;
    }
  }
  if (options.lm.empty() && (lm_weight || word_bonus))
    refuse("--lm-weight or --word-bonus without --lm", "--lm with a language model");
  if (!options.lm.empty() && beam == 1)
    refuse("a language model with --beam 1", "--beam 2 or more, or --lm '' for none");
  if (language_model && !options.lm.empty() && options.beam == 1 && !is_beam_set)
    options.beam = kBeamWithModel;
  options.beam = beam.value_or(options.beam);
  options.ctc_weight = ctc_weight.value_or(options.ctc_weight);
  options.lm_weight = lm_weight.value_or(options.lm_weight);
  options.word_bonus = word_bonus.value_or(options.word_bonus);
  return options;
}

void DecodeChoice::apply(train::Recogniser& recogniser, const decode::DecodeOptions& options,
                         const std::vector<std::string>& overrides) const {
  const auto is_set = [&](const std::string& key) {
    return std::ranges::any_of(
        overrides, [&](const std::string& text) { return text.starts_with(key + "="); });
  };
  const auto refuse_both = [&](bool is_option, const char* option, const std::string& key) {
    if (!is_option || !is_set(key)) return;
    throw ConfigError({.attempted = "choosing a search",
                       .found = fmt::format("{} by {} and by --set", key, option),
                       .expected = "it once",
                       .hint = "Remove one of them."});
  };
  refuse_both(beam.has_value(), "--beam", "decode.beam");
  refuse_both(ctc_weight.has_value(), "--ctc-weight", "decode.ctc_weight");
  refuse_both(language_model.has_value(), "--lm", "decode.lm");
  refuse_both(lm_weight.has_value(), "--lm-weight", "decode.lm_weight");
  refuse_both(word_bonus.has_value(), "--word-bonus", "decode.word_bonus");
  const bool is_beam_set = is_set("decode.beam");
  const decode::DecodeOptions changed = applied_to(options, is_beam_set);
  const models::Outline& outline = recogniser.outline();
  if (ctc_weight && !(outline.decoder && outline.scores_frames)) {
    throw ConfigError({.attempted = "choosing a search",
                       .found = fmt::format("--ctc-weight for a network with {} alone",
                                            decode::describe_heads(outline)),
                       .expected = "a network with CTC and an attention decoder",
                       .hint = "Remove --ctc-weight."});
  }
  std::error_code ignored;
  const auto total = changed.lm.empty()
                         ? 0
                         : static_cast<int64_t>(std::filesystem::file_size(changed.lm, ignored));
  Progress progress("reading the language model");
  recogniser.set_decode_options(
      changed, [&](int64_t bytes) { progress.show(bytes >> 20, total >> 20, "MiB"); });
}

}  // namespace sotto::cli
