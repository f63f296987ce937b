// `sotto data import`: makes a manifest from a corpus in its original format.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/data_commands.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "sotto/core/units.h"
#include "sotto/data/import/import.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

struct ImportCommand {
  std::string source;
  std::string from = "auto";
  std::string out = "manifest.jsonl";
  std::string audio_root;
  std::string broken = "skip";
  data::ImportOptions options;
  bool json = false;
};

template <class Names>
std::vector<std::string> names_in(const Names& names) {
  std::vector<std::string> result;
  for (const auto& entry : names) result.emplace_back(entry.name);
  return result;
}

nlohmann::ordered_json to_json(const data::ImportResult& result) {
  nlohmann::ordered_json problems = nlohmann::ordered_json::array();
  for (const data::ImportProblem& problem : result.problems)
    problems.push_back({{"place", problem.location}, {"found", problem.found}});
  return {{"format_version", 1},
          {"source", name_of(result.source, data::kImportSources)},
          {"manifest", result.manifest.string()},
          {"utterances", result.num_utterances},
          {"audio_seconds", result.audio_seconds},
          {"headers_read", result.num_read},
          {"headers_resumed", result.num_resumed},
          {"left_out", result.problems.size()},
          {"problems", problems}};
}

std::string problem_table(const std::vector<data::ImportProblem>& problems) {
  constexpr size_t kShown = 20;
  report::Table table({{}, {}});
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i)
    table.add_row({problems[i].location, problems[i].found});
  // Not truncated on a terminal either: the command to type is at the end of a line.
  std::string text = table.to_string(std::numeric_limits<int64_t>::max());
  if (problems.size() > kShown)
    text += fmt::format("and {} more; --json lists all\n", problems.size() - kShown);
  return text;
}

void run_import(const ImportCommand& command) {
  data::ImportOptions options = command.options;
  options.from = value_of(command.from, data::kImportSources);
  options.out = command.out;
  options.audio_root = command.audio_root;
  options.broken = value_of(command.broken, data::kPolicies);
  Progress progress("importing");
  const data::ImportResult result = data::import_corpus(
      command.source, options,
      [&](int64_t done, int64_t total) { progress.show(done, total, "utterances"); });
  progress.clear();
  if (command.json) {
    std::cout << json_text(to_json(result));
    return;
  }
  std::cout << fmt::format("{}: {} utterances, {} of audio, from {}\n", result.manifest.string(),
                           result.num_utterances, format_duration(result.audio_seconds),
                           name_of(result.source, data::kImportSources));
  if (result.num_resumed > 0)
    std::cout << fmt::format("{} durations were taken from an interrupted import\n",
                             result.num_resumed);
  if (!result.problems.empty())
    std::cout << fmt::format("{} skipped:\n\n", result.problems.size())
              << problem_table(result.problems);
  std::cout << fmt::format("Next: sotto data check {}\n", result.manifest.string());
}

}  // namespace

void add_data_import(CLI::App& data) {
  CLI::App* command =
      data.add_subcommand("import", "Make a manifest from a folder, a table or a known corpus");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<ImportCommand>();
  data::TableColumns& columns = options->options.columns;
  command->add_option("SOURCE", options->source, "Folder or list to import")->required();
  command->add_option("--out", options->out, "Manifest to write");
  command->add_option("--from", options->from, "Format of the source")
      ->check(CLI::IsMember(names_in(data::kImportSources)));
  command
      ->add_option("--broken", options->broken, "How to handle files and rows that cannot be read")
      ->check(CLI::IsMember(names_in(data::kPolicies)));
  command->add_option("--audio-column", columns.audio, "Table column with the audio file");
  command->add_option("--text-column", columns.text, "Table column with the transcript");
  command->add_option("--duration-column", columns.duration,
                      "Table column with the duration in seconds");
  command->add_option("--offset-column", columns.offset,
                      "Table column with the start of a segment in seconds");
  command->add_option("--speaker-column", columns.speaker, "Table column with the speaker");
  command->add_option("--lang-column", columns.lang, "Table column with the language");
  command->add_option("--audio-root", options->audio_root,
                      "Folder that relative paths of a table or a Kaldi folder start from");
  command->add_option("--tar", options->options.tar,
                      "NeMo tar archives: 'shards/audio_{0..7}.tar', or one file");
  command->add_flag("--json", options->json, "Print JSON, with everything that was skipped");
  command->footer(
      example("  sotto data import recordings/ --out all.jsonl\n"
              "  sotto data import clips.csv --text-column transcript --out all.jsonl\n"
              "  sotto data import cv-corpus/pl/train.tsv --out train.jsonl",
              "one of these corpora: a folder with audio and texts, a table, Common Voice"));
  command->callback([options] { run_import(*options); });
}

}  // namespace sotto::cli
