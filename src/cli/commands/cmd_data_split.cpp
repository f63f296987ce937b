// `sotto data split`: splits a manifest into train, dev and test parts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/data_commands.h"
#include "cli/views/json_text.h"
#include "sotto/core/units.h"
#include "sotto/data/import/split.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

struct SplitCommand {
  std::string manifest;
  std::string dev = "5%";
  std::string test = "5%";
  std::string by = "auto";
  std::string out;
  uint64_t seed = 1;
  bool json = false;
};

std::string render(const data::SplitResult& result) {
  using report::Align;
  double total_s = 0.0;
  for (const data::SplitPart& part : result.parts) total_s += part.seconds;
  report::Table table({{"part"},
                       {"utterances", Align::kRight},
                       {"speakers", Align::kRight},
                       {"audio", Align::kRight},
                       {"share", Align::kRight},
                       {"manifest"}});
  for (const data::SplitPart& part : result.parts) {
    table.add_row({part.name, fmt::format("{}", part.num_utterances),
                   fmt::format("{}", part.num_speakers), format_duration(part.seconds),
                   fmt::format("{:.1f} %", 100.0 * part.seconds / total_s),
                   part.manifest.string()});
  }
  return fmt::format("split by {}\n\n{}",
                     result.by == data::SplitBy::kSpeaker ? "speaker" : "random draw",
                     table.to_string());
}

nlohmann::ordered_json to_json(const data::SplitResult& result, uint64_t seed) {
  nlohmann::ordered_json json = {
      {"format_version", 1}, {"by", name_of(result.by, data::kSplitBy)}, {"seed", seed}};
  for (const data::SplitPart& part : result.parts) {
    json["parts"].push_back({{"name", part.name},
                             {"manifest", part.manifest.string()},
                             {"utterances", part.num_utterances},
                             {"speakers", part.num_speakers},
                             {"audio_seconds", part.seconds}});
  }
  return json;
}

void run_split(const SplitCommand& command) {
  const data::SplitOptions options{.dev = data::PartSize::parse(command.dev),
                                   .test = data::PartSize::parse(command.test),
                                   .by = value_of(command.by, data::kSplitBy),
                                   .seed = command.seed,
                                   .out = command.out};
  const data::SplitResult result = data::split_manifest(command.manifest, options);
  std::cout << (command.json ? json_text(to_json(result, command.seed)) : render(result));
}

}  // namespace

void add_data_split(CLI::App& data) {
  CLI::App* command =
      data.add_subcommand("split", "Split a manifest into train.jsonl, dev.jsonl and test.jsonl");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<SplitCommand>();
  command->add_option("MANIFEST", options->manifest, "Manifest to split")->required();
  command->add_option("--out", options->out, "Folder of the parts")->required();
  command->add_option("--dev", options->dev,
                      "Share of the audio (5%) or number of utterances (200) for dev");
  command->add_option("--test", options->test, "Share or number for test; 0: no test part");
  command
      ->add_option("--by", options->by,
                   "Split by speaker (each in one part) or at random; auto: by speaker where "
                   "speakers are known")
      ->check(CLI::IsMember({"auto", "speaker", "random"}));
  command->add_option("--seed", options->seed, "Random seed of the split");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      example("  sotto data split all.jsonl --dev 5% --test 5% --by speaker --out manifests",
              "a manifest all.jsonl, as sotto data import writes it"));
  command->callback([options] { run_split(*options); });
}

}  // namespace sotto::cli
