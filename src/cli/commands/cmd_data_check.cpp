// `sotto data check`: finds problems in a corpus; prints a table or JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/commands/command_line.h"
#include "cli/commands/data_commands.h"
#include "cli/commands/text_options.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/data/import/corpus_check.h"
#include "sotto/device/host_info.h"
#include "sotto/plan/run/model_choice.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using data::CorpusCheck;
using report::Align;
using report::Table;

struct CheckCommand {
  std::string manifest;
  std::string model;
  std::string tokenizer;
  data::TextRules rules;
  std::string write_clean;
  bool strict = false;
  bool json = false;
};

// Renders counts by kind, then the first findings of each.
std::string render(const CorpusCheck& check) {
  std::string text = fmt::format("{} utterances, {} of audio\n", check.num_utterances,
                                 format_duration(check.seconds));
  if (check.findings.empty()) return text + "nothing found\n";
  Table counts(
      {{"found"}, {"utterances", Align::kRight}, {"first line", Align::kRight}, {"which"}});
  for (const auto& [name, fault] : data::kFaults) {
    const int64_t count = check.count(fault);
    if (count == 0) continue;
    const auto first = std::ranges::find(check.findings, fault, &data::Finding::fault);
    counts.add_row({std::string(name), fmt::format("{}", count), fmt::format("{}", first->line),
                    first->detail});
  }
  text += "\n" + counts.to_string();
  if (check.num_unlisted > 0)
    text +=
        fmt::format("\n{} broken lines are counted but not listed by --json\n", check.num_unlisted);
  return text;
}

nlohmann::ordered_json to_json(const CorpusCheck& check, const std::string& manifest) {
  nlohmann::ordered_json json = {{"format_version", 1},
                                 {"manifest", manifest},
                                 {"utterances", check.num_utterances},
                                 {"audio_seconds", check.seconds},
                                 {"clean", check.clean().size()},
                                 {"counts", nlohmann::ordered_json::object()},
                                 {"findings", nlohmann::ordered_json::array()},
                                 {"unlisted", check.num_unlisted}};
  for (const auto& [name, fault] : data::kFaults) {
    if (const int64_t count = check.count(fault)) json["counts"][std::string(name)] = count;
  }
  for (const data::Finding& finding : check.findings) {
    json["findings"].push_back({{"fault", name_of(finding.fault, data::kFaults)},
                                {"line", finding.line},
                                {"detail", finding.detail}});
  }
  return json;
}

// Returns the memory limit per file: all cores decode concurrently, and share half of the free RAM.
// No utterance needs more than 2 GiB: that is over an hour.
int64_t most_bytes_per_file() {
  const device::HostInfo host = device::read_host();
  return std::min(int64_t{2} << 30, host.free_bytes / 2 / host.num_cores);
}

CorpusCheck check(const CheckCommand& command, const data::Manifest& manifest) {
  std::optional<data::Tokenizer> tokenizer;
  if (!command.tokenizer.empty())
    tokenizer = data::Tokenizer::read(command.tokenizer, command.rules);
  std::unique_ptr<models::Model> model;
  Progress progress("checking");
  data::CorpusCheckOptions options;
  options.on_progress = [&](int64_t done, int64_t total) {
    progress.show(done, total, "utterances");
  };
  options.max_audio_bytes = most_bytes_per_file();
  if (tokenizer) options.tokenizer = &*tokenizer;
  if (!command.model.empty()) {
    const models::ModelOptions chosen = plan::choose_model(command.model).options;
    model = chosen.make(
        {.vocabulary = chosen.usual_vocabulary(), .feature_dim = manifest.feature_dim()},
        {.device = at::kMeta});
    options.sample_rate = chosen.sample_rate();
    options.num_frames = [&](int64_t rows) { return model->size_of({.rows = rows}).frames; };
  }
  return data::check_corpus(manifest, options);
}

void run_check(const CheckCommand& command) {
  if (!command.model.empty() && command.tokenizer.empty()) {
    throw ConfigError({.attempted = "checking labels against a model's frames",
                       .found = "--model without --tokenizer",
                       .expected = "a tokenizer, which turns transcripts into labels",
                       .hint = "`sotto tokenizer train --type char` makes one from the data."});
  }
  if (command.tokenizer.empty() && !(command.rules == data::TextRules{})) {
    throw ConfigError({.attempted = "checking transcripts by rules",
                       .found = "text rules without --tokenizer",
                       .expected = "a tokenizer to check the texts with"});
  }
  command.rules.validate();
  const data::Manifest manifest = data::Manifest::read(command.manifest);
  const CorpusCheck found = check(command, manifest);
  std::cout << (command.json ? json_text(to_json(found, command.manifest)) : render(found));
  if (!command.write_clean.empty()) {
    data::write_clean(manifest, found, command.write_clean);
    if (!command.json)
      std::cout << fmt::format("\nwrote {} of {} utterances to {}\n", found.clean().size(),
                               found.num_utterances, command.write_clean);
  }
  if (!command.strict || found.findings.empty()) return;
  throw DataError({.attempted = fmt::format("checking {}", command.manifest),
                   .found = fmt::format("{} findings", found.num_findings()),
                   .expected = "none, with --strict"});
}

}  // namespace

void add_data_check(CLI::App& data) {
  CLI::App* command = data.add_subcommand("check", "Check a corpus for problems");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<CheckCommand>();
  command->add_option("manifest", options->manifest, "JSON lines")->required();
  command->add_option("--tokenizer", options->tokenizer,
                      "vocab.json or .model: also check that all characters are known");
  add_text_rules(*command, options->rules);
  command->add_option(
      "--model", options->model,
      "Preset, folder or id: also check that there are enough frames for the labels");
  command->add_option("--write-clean", options->write_clean,
                      "Write the utterances without a finding to this manifest");
  command->add_flag("--strict", options->strict, "Exit with code 2 if anything is found");
  command->add_flag("--json", options->json,
                    "Print JSON with every finding (at most 1000 broken lines)");
  command->footer(
      example("  sotto data check all.jsonl --write-clean clean.jsonl\n"
              "  sotto data check all.jsonl --tokenizer vocab.json --model wav2vec2-base",
              "a manifest all.jsonl, as sotto data import writes it; the second line a vocab.json, "
              "as sotto tokenizer train writes it"));
  command->callback([options] { run_check(*options); });
}

}  // namespace sotto::cli
