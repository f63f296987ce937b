// `sotto eval`: computes word and character error rates of a checkpoint on a manifest, or the
// perplexity of a language model on a text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/decode_choice.h"
#include "cli/commands/number_checks.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "cli/views/train_view.h"
#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/device/opened_device.h"
#include "sotto/report/table.h"
#include "sotto/train/recognition/recogniser.h"
#include "sotto/train/run/run_files.h"

namespace sotto::cli {

namespace {

struct EvalOptions {
  std::string model;
  std::string data;
  std::string memory = "auto";
  std::string device = "cpu";
  DecodeChoice decode;
  int64_t show = 0;
  int64_t worst = 0;
  std::string by;
  std::vector<std::string> overrides;
  bool json = false;
};

// Utterances whose line has no value form a group too.
std::string name_of(const train::ErrorGroup& group) {
  return group.name.empty() ? "(none)" : group.name;
}

nlohmann::ordered_json groups_json(const train::Evaluation& evaluation,
                                   std::string train::Evaluation::Sentence::* by) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::object();
  const std::vector<train::ErrorGroup> all = train::group_errors(evaluation.sentences, by);
  // Where no line has a value, there are no groups.
  if (all.size() == 1 && all.front().name.empty()) return groups;
  for (const train::ErrorGroup& group : all) {
    groups[name_of(group)] = {{"utterances", group.num_utterances},
                              {"wer", train::counts_json(group.words)},
                              {"cer", train::counts_json(group.characters)}};
  }
  return groups;
}

nlohmann::ordered_json to_json(const train::Evaluation& evaluation,
                               const train::Recogniser& recogniser) {
  const std::string checkpoint = recogniser.folder().string();
  if (evaluation.task->is_text()) {
    return {{"format_version", 1},
            {"checkpoint", checkpoint},
            {"perplexity", evaluation.perplexity()},
            {"loss", evaluation.loss},
            {"tokens", evaluation.num_tokens},
            {"rows", evaluation.num_utterances},
            {"seconds", evaluation.seconds}};
  }
  nlohmann::ordered_json sentences = nlohmann::ordered_json::array();
  for (const train::Evaluation::Sentence& sentence : evaluation.sentences) {
    sentences.push_back({{"utterance", sentence.utterance},
                         {"reference", sentence.reference},
                         {"hypothesis", sentence.hypothesis},
                         {"wer", sentence.words.rate()},
                         {"cer", sentence.characters.rate()}});
  }
  nlohmann::ordered_json reasons = nlohmann::ordered_json::array();
  for (const data::SkippedUtterance& skipped : evaluation.skipped)
    reasons.push_back(skipped.reason);
  return {{"format_version", 1},
          {"checkpoint", checkpoint},
          {"wer", train::counts_json(evaluation.words)},
          {"cer", train::counts_json(evaluation.characters)},
          {"normalizer",
           name_of(recogniser.checkpoint().config.decode.normalizer, decode::kNormalizerKinds)},
          {"loss", evaluation.loss},
          {"utterances", evaluation.num_utterances},
          {"skipped", evaluation.num_skipped},
          {"skipped_reasons", std::move(reasons)},
          {"audio_seconds", evaluation.audio_seconds},
          {"seconds", evaluation.seconds},
          {"speakers", groups_json(evaluation, &train::Evaluation::Sentence::speaker)},
          {"languages", groups_json(evaluation, &train::Evaluation::Sentence::lang)},
          {"sentences", std::move(sentences)}};
}

std::string render_text(const train::Evaluation& evaluation, int64_t peak_bytes) {
  const Amount amount{.num_tokens = evaluation.num_tokens};
  return fmt::format("{}\n{} rows, {} in {} ({}), peak {}\n", describe(evaluation),
                     evaluation.num_utterances, describe(amount),
                     format_duration(evaluation.seconds),
                     describe_speed(amount, evaluation.seconds), format_bytes(peak_bytes));
}

std::string render_sentence(const train::Evaluation::Sentence& sentence) {
  return fmt::format("reference   {}\nhypothesis  {}\n\n", sentence.reference, sentence.hypothesis);
}

// Renders one row per speaker or language.
std::string render_groups(const train::Evaluation& evaluation, const std::string& by) {
  const bool is_speaker = by == "speaker";
  report::Table table({{by},
                       {"utterances", report::Align::kRight},
                       {"WER %", report::Align::kRight},
                       {"CER %", report::Align::kRight}});
  for (const train::ErrorGroup& group :
       train::group_errors(evaluation.sentences, is_speaker ? &train::Evaluation::Sentence::speaker
                                                            : &train::Evaluation::Sentence::lang)) {
    table.add_row({name_of(group), fmt::format("{}", group.num_utterances),
                   fmt::format("{:.2f}", 100.0 * group.words.rate()),
                   fmt::format("{:.2f}", 100.0 * group.characters.rate())});
  }
  return table.to_string() + "\n";
}

// Renders the number of skipped utterances, and the reasons of the first ones.
std::string render_skipped(const train::Evaluation& evaluation) {
  constexpr int64_t kMostShown = 20;
  if (evaluation.num_skipped == 0) return {};
  std::string text = fmt::format("{} {} skipped\n", evaluation.num_skipped,
                                 evaluation.num_skipped == 1 ? "utterance" : "utterances");
  int64_t num_shown = 0;
  for (const data::SkippedUtterance& skipped : evaluation.skipped) {
    if (num_shown++ == kMostShown) break;
    text += fmt::format("skipped: {}\n", skipped.reason);
  }
  if (evaluation.num_skipped > kMostShown)
    text += fmt::format("and {} more; --json lists {}\n", evaluation.num_skipped - kMostShown,
                        evaluation.skipped.size());
  return text;
}

std::string render(const train::Evaluation& evaluation, const EvalOptions& options,
                   int64_t peak_bytes) {
  std::string text;
  int64_t num_shown = options.show;
  for (const train::Evaluation::Sentence& sentence : evaluation.sentences) {
    if (num_shown-- <= 0) break;
    text += render_sentence(sentence);
  }
  for (const train::Evaluation::Sentence& sentence :
       train::worst_sentences(evaluation.sentences, options.worst)) {
    const auto counted = [](int64_t count, const char* noun) {
      return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
    };
    text += fmt::format("utterance {}, {} in {}\n", sentence.utterance + 1,
                        counted(sentence.words.errors(), "error"),
                        counted(sentence.words.reference_length, "word"));
    text += render_sentence(sentence);
  }
  if (!options.by.empty()) text += render_groups(evaluation, options.by);
  text += fmt::format("WER  {}\nCER  {}\n", describe(evaluation.words),
                      describe(evaluation.characters));
  text += fmt::format(
      "{} utterances, {} of audio in {} ({}x real time), peak {}\n", evaluation.num_utterances,
      format_duration(evaluation.audio_seconds), format_duration(evaluation.seconds),
      format_digits(evaluation.audio_seconds / evaluation.seconds), format_bytes(peak_bytes));
  return text + render_skipped(evaluation);
}

// Settings that affect an evaluation.
constexpr std::array kSettings = {std::string_view("data.min_seconds"),
                                  std::string_view("data.max_seconds"),
                                  std::string_view("data.max_samples"),
                                  std::string_view("data.too_short"),
                                  std::string_view("data.too_long"),
                                  std::string_view("data.broken"),
                                  std::string_view("data.unknown_text"),
                                  std::string_view("data.empty_text"),
                                  std::string_view("data.loader_threads"),
                                  std::string_view("decode.beam"),
                                  std::string_view("decode.ctc_weight"),
                                  std::string_view("decode.max_tokens_per_frame"),
                                  std::string_view("decode.min_tokens_per_frame"),
                                  std::string_view("decode.length_penalty"),
                                  std::string_view("decode.lm"),
                                  std::string_view("decode.lm_weight"),
                                  std::string_view("decode.word_bonus"),
                                  std::string_view("decode.normalizer"),
                                  std::string_view("decode.spellings"),
                                  std::string_view("decode.remove_diacritics"),
                                  std::string_view("decode.split_letters")};
// Text normalisation rules: a run has its own, a model of other programs has none.
constexpr std::array kTextSettings = {
    std::string_view("data.text.unicode"), std::string_view("data.text.case"),
    std::string_view("data.text.punctuation"), std::string_view("data.text.keep_characters")};

// Without a bound no utterance is too long; the run's own bound applied to training.
void check_bound(const std::vector<std::string>& sets) {
  const auto find = [&](std::string_view key) {
    return std::ranges::find_if(sets,
                                [&](const std::string& text) { return text.starts_with(key); });
  };
  const auto found = find("data.too_long=");
  if (found == sets.end() || find("data.max_seconds=") != sets.end()) return;
  throw ConfigError({.attempted = "reading the settings of an evaluation",
                     .found = fmt::format("--set {} without data.max_seconds", *found),
                     .expected = "data.max_seconds, the maximum duration",
                     .hint = "An evaluation does not use the limits of training: --set "
                             "data.max_seconds=30."});
}

// Returns the run's settings overridden by --set; throws for settings that would have no effect.
train::RunConfig changed_config(const train::Recogniser& recogniser,
                                const std::vector<std::string>& sets) {
  std::vector<std::string_view> known(kSettings.begin(), kSettings.end());
  if (!train::is_checkpoint(recogniser.folder()))
    known.insert(known.end(), kTextSettings.begin(), kTextSettings.end());
  for (const std::string& text : sets) {
    const std::string key = text.substr(0, text.find('='));
    if (std::ranges::find(known, key) != known.end()) continue;
    throw ConfigError({.attempted = "reading the settings of an evaluation",
                       .found = fmt::format("--set {}", text),
                       .expected = fmt::format("one of {}", fmt::join(known, ", "))});
  }
  train::RunConfig changed = recogniser.checkpoint().config;
  check_bound(sets);
  read_group(load_overrides(sets), as_group(changed));
  return changed;
}

void run_eval(const EvalOptions& options) {
  const device::OpenedDevice opened(MemorySize::parse(options.memory), options.device);
  train::Recogniser recogniser(options.model, opened.budget_bytes, opened.device);
  const train::RunConfig config = changed_config(recogniser, options.overrides);
  recogniser.set_data_options(config.data);
  const Task& task = config.model.task();
  if (task.is_text() && (options.show > 0 || options.worst > 0 || !options.by.empty() ||
                         !options.decode.is_empty())) {
    throw ConfigError({.attempted = "evaluating a language model",
                       .found = "an option of transcripts, such as --show, --by or --beam",
                       .expected = "none: a language model does not transcribe"});
  }
  options.decode.apply(recogniser, config.decode, options.overrides);
  Progress progress("evaluating");
  const train::Evaluation evaluation = recogniser.evaluate(
      options.data, [&](int64_t done, int64_t total) { progress.show(done, total, task.items); });
  progress.clear();
  if (options.json) {
    std::cout << json_text(to_json(evaluation, recogniser));
  } else {
    std::cout << (task.is_text() ? render_text(evaluation, recogniser.peak_bytes())
                                 : render(evaluation, options, recogniser.peak_bytes()));
  }
}

}  // namespace

void add_eval(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand(
      "eval", "Compute the error rates of a model, or the perplexity of a language model");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<EvalOptions>();
  command
      ->add_option(
          "--model,--checkpoint", options->model,
          "Run (its best checkpoint), checkpoint, Hugging Face folder, id in the local cache, or "
          ".nemo archive")
      ->required();
  command
      ->add_option("--data", options->data, "Manifest to evaluate on; a text for a language model")
      ->required();
  add_memory_option(*command, options->memory);
  command->add_option("--device", options->device, "Device: cpu, cuda or cuda:N");
  command
      ->add_option("--show", options->show, "Number of sentences to print with their transcripts")
      ->check(not_negative());
  command
      ->add_option("--worst", options->worst,
                   "Number of sentences to print, those with the most errors")
      ->check(not_negative());
  command->add_option("--by", options->by, "Also print error rates by speaker or by language")
      ->check(CLI::IsMember({"speaker", "lang"}));
  command
      ->add_option("--set", options->overrides,
                   "Override how broken, long or unknown utterances are handled, or the search: "
                   "data.broken=skip, decode.beam=8, decode.normalizer=basic; for a Hugging Face "
                   "model also text rules: "
                   "data.text.case=upper (repeatable)")
      ->allow_extra_args(false);
  options->decode.add_to(*command);
  command->add_flag("--json", options->json, "Print JSON, with all sentences and groups");
  command->footer(example("  sotto eval --model runs/tiny-1 --data demo_data/test.jsonl --show 3",
                          "a run in runs/tiny-1 and a manifest: sotto train --help makes both"));
  command->callback([options] { run_eval(*options); });
}

}  // namespace sotto::cli
