// `sotto data`: its subcommands, and `sotto data demo`, a small corpus of synthetic speech.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/data_commands.h"
#include "cli/commands/number_checks.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "sotto/core/units.h"
#include "sotto/data/import/demo_corpus.h"

namespace sotto::cli {

namespace {

struct DemoOptions {
  std::string out = "demo_data";
  data::DemoCorpusOptions corpus;
  bool json = false;
};

void run_demo(const DemoOptions& options) {
  Progress progress("speaking");
  const int64_t total = options.corpus.train_utterances + options.corpus.dev_utterances +
                        options.corpus.test_utterances;
  const data::DemoCorpus corpus = data::make_demo_corpus(
      options.out, options.corpus, [&](int64_t done) { progress.show(done, total, "utterances"); });
  progress.clear();
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"format_version", 1},        {"train", corpus.train.string()},
        {"dev", corpus.dev.string()}, {"test", corpus.test.string()},
        {"utterances", total},        {"audio_seconds", corpus.audio_seconds}};
    std::cout << json_text(json);
    return;
  }
  std::cout << fmt::format("{} utterances, {} of speech: {}, {}, {}\n", total,
                           format_duration(corpus.audio_seconds), corpus.train.string(),
                           corpus.dev.string(), corpus.test.string());
}

}  // namespace

void add_data(CLI::App& app, const GlobalOptions&) {
  CLI::App* data = app.add_subcommand("data", "Make and prepare corpora");
  data->footer(
      example("  sotto data import recordings/ --out all.jsonl\n"
              "  sotto data check all.jsonl\n"
              "  sotto data split all.jsonl --dev 5% --test 5% --out manifests",
              "a folder recordings/ with audio files, each with its .txt"));
  add_data_import(*data);
  add_data_split(*data);
  add_data_check(*data);
  add_data_text(*data);
  add_data_fetch(*data);
  CLI::App* demo = data->add_subcommand(
      "demo",
      "Make a corpus of synthetic speech (espeak-ng): digits and commands, several voices, noise");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<DemoOptions>();
  demo->add_option("--out", options->out, "Folder to make");
  demo->add_option("--utterances", options->corpus.train_utterances,
                   "Number of training utterances")
      ->check(positive());
  demo->add_option("--seed", options->corpus.seed, "Random seed of texts, voices and noise");
  demo->add_flag("--json", options->json, "Print JSON");
  demo->footer(example("  sotto data demo --out demo_data --utterances 400",
                       "espeak-ng: apt-get install espeak-ng"));
  demo->callback([options] { run_demo(*options); });
}

}  // namespace sotto::cli
