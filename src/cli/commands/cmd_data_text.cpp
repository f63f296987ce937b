// `sotto data text`: splits a text corpus into train, dev and test by whole documents.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands/command_line.h"
#include "cli/commands/data_commands.h"
#include "cli/commands/number_checks.h"
#include "cli/commands/text_options.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/data/text/text_corpus.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

struct TextOptions {
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path out;
  std::string dev = "10%";
  std::string test = "5%";
  std::string documents;
  int64_t seed = 1;
  bool json = false;
};

// Parses a percentage such as "10%".
double parse_share(const std::string& option, const std::string& text) {
  double percent = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, percent);
  if (error == std::errc() && std::string(rest, end) == "%" && percent >= 0.0 && percent < 100.0)
    return percent / 100.0;
  throw ConfigError({.attempted = "splitting texts",
                     .found = fmt::format("{} {}", option, text),
                     .expected = "a share from 0% to below 100%"});
}

data::TextSplitOptions split_options(const TextOptions& options) {
  data::TextSplitOptions split{.dev = parse_share("--dev", options.dev),
                               .test = parse_share("--test", options.test),
                               .seed = options.seed};
  if (options.documents.empty()) return split;
  if (data::is_json_lines(options.inputs.front())) {
    throw ConfigError({.attempted = "splitting texts",
                       .found = "--documents, where each line of JSON is a document",
                       .expected = "plain text, or no --documents"});
  }
  split.documents = value_of(options.documents, data::kDocuments);
  return split;
}

void print(const data::TextSplit& split, bool as_json) {
  nlohmann::ordered_json json = {{"format_version", 1}};
  report::Table table(
      {{"part"}, {"documents", report::Align::kRight}, {"size", report::Align::kRight}, {"file"}});
  for (const data::TextSplit::Part& part : split.parts) {
    json[part.name] = {
        {"file", part.path.string()}, {"documents", part.documents}, {"bytes", part.bytes}};
    table.add_row({part.name, fmt::format("{}", part.documents), format_bytes(part.bytes),
                   part.path.string()});
  }
  if (as_json) {
    std::cout << json_text(json);
  } else {
    std::cout << table.to_string();
  }
}

void run_text(const TextOptions& options) {
  Progress progress("splitting");
  const int64_t total = total_bytes(options.inputs);
  const data::TextSplit split =
      data::split_text(options.inputs, options.out, split_options(options),
                       [&](int64_t bytes) { progress.show(bytes >> 20, total >> 20, "MiB"); });
  progress.clear();
  print(split, options.json);
}

}  // namespace

void add_data_text(CLI::App& data) {
  CLI::App* command =
      data.add_subcommand("text", "Split a text corpus into train, dev and test by documents");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<TextOptions>();
  command
      ->add_option("texts", options->inputs,
                   "Plain text in UTF-8, or JSON lines with a text (.jsonl)")
      ->required();
  command->add_option("--out", options->out, "Folder to make")->required();
  command->add_option("--dev", options->dev, "Share of the documents to evaluate on (10%)");
  command->add_option("--test", options->test, "Share of the documents to test on (5%)");
  command
      ->add_option("--documents", options->documents,
                   "Document boundary in plain text: every line, or blank lines (default)")
      ->check(CLI::IsMember({"line", "paragraph"}));
  command->add_option("--seed", options->seed, "Random seed of the split")->check(not_negative());
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      example("  sotto data text books.txt --documents line --out corpus", "a text, books.txt"));
  command->callback([options] { run_text(*options); });
}

}  // namespace sotto::cli
