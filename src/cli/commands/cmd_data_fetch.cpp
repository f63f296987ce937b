// `sotto data fetch`: lists public corpora and downloads their files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/data_commands.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "sotto/core/error.h"
#include "sotto/core/nearest.h"
#include "sotto/core/units.h"
#include "sotto/data/import/corpora.h"
#include "sotto/data/import/fetch.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;
using data::Corpus;

struct FetchOptions {
  std::string what;
  fs::path out;
  std::string sha256;
  bool lists = false;
  bool unpacks = false;
  bool json = false;
};

nlohmann::ordered_json to_json(const Corpus& corpus) {
  return {{"name", corpus.name},   {"what", corpus.what},       {"amount", corpus.amount},
          {"size", corpus.size},   {"licence", corpus.licence}, {"page", corpus.page},
          {"files", corpus.files}, {"steps", corpus.steps},     {"import", corpus.import}};
}

std::string how_to_get(const Corpus& corpus) {
  return corpus.files.empty()
             ? corpus.steps
             : fmt::format("sotto data fetch {} --out FOLDER --unpack", corpus.name);
}

void print_list(bool as_json) {
  if (as_json) {
    nlohmann::ordered_json json = {{"format_version", 1}};
    for (const Corpus& corpus : data::public_corpora()) json["corpora"].push_back(to_json(corpus));
    std::cout << json_text(json);
    return;
  }
  for (const Corpus& corpus : data::public_corpora()) {
    std::cout << fmt::format("{}: {}\n  {}, {}, {}\n  {}\n  get     {}\n  import  {}\n\n",
                             corpus.name, corpus.what, corpus.amount, corpus.size, corpus.licence,
                             corpus.page, how_to_get(corpus), corpus.import);
  }
}

std::vector<std::string> addresses_of(const FetchOptions& options) {
  if (options.what.find("://") != std::string::npos) return {options.what};
  const std::optional<Corpus> corpus = data::find_corpus(options.what);
  if (!corpus) {
    std::vector<std::string> names;
    for (const Corpus& known : data::public_corpora()) names.push_back(known.name);
    const std::optional<std::string> best = nearest(options.what, names);
    throw ConfigError({.attempted = "fetching a corpus",
                       .found = fmt::format("the name '{}'", options.what),
                       .expected = fmt::format("an address, or one of {}", fmt::join(names, ", ")),
                       .hint = best ? fmt::format("Did you mean '{}'?", *best) : ""});
  }
  if (corpus->files.empty()) {
    throw ConfigError({.attempted = fmt::format("fetching {}", corpus->name),
                       .found = "no file that can be downloaded directly",
                       .expected = fmt::format("{}: {}", corpus->page, corpus->steps)});
  }
  return corpus->files;
}

void check(const FetchOptions& options, size_t num_files) {
  if (options.out.empty()) {
    throw ConfigError({.attempted = fmt::format("fetching {}", options.what),
                       .found = "no folder was given",
                       .hint = "Name one with --out."});
  }
  if (options.sha256.empty()) return;
  const bool is_sum =
      options.sha256.size() == 64 &&
      options.sha256.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (is_sum && num_files == 1) return;
  throw ConfigError({.attempted = fmt::format("fetching {}", options.what),
                     .found = is_sum ? fmt::format("--sha256 for {} files", num_files)
                                     : fmt::format("--sha256 {}", options.sha256),
                     .expected = "one file and 64 hexadecimal digits"});
}

void run_fetch(const FetchOptions& options) {
  if (options.lists) return print_list(options.json);
  if (options.what.empty()) {
    throw ConfigError({.attempted = "fetching a corpus",
                       .found = "no corpus was given",
                       .expected = "a name, an address, or --list"});
  }
  const std::vector<std::string> addresses = addresses_of(options);
  check(options, addresses.size());
  nlohmann::ordered_json json = {{"format_version", 1}, {"files", nlohmann::json::array()}};
  int64_t done = 0;
  for (const std::string& address : addresses) {
    Progress progress(fmt::format("fetching {}", fs::path(address).filename().string()));
    const fs::path file = data::fetch_file(
        {.url = address, .folder = options.out, .sha256 = options.sha256}, [&](int64_t bytes) {
          progress.show(done, std::ssize(addresses), fmt::format("files, {}", format_bytes(bytes)));
        });
    if (options.unpacks) {
      progress.show(done, std::ssize(addresses), "files, unpacking");
      data::unpack_file(file);
    }
    progress.clear();
    ++done;
    const auto bytes = static_cast<int64_t>(fs::file_size(file));
    json["files"].push_back({{"file", file.string()}, {"bytes", bytes}});
    if (!options.json) std::cout << fmt::format("{}: {}\n", file.string(), format_bytes(bytes));
  }
  if (options.json) std::cout << json_text(json);
}

}  // namespace

void add_data_fetch(CLI::App& data) {
  CLI::App* command = data.add_subcommand("fetch", "List and download public corpora");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<FetchOptions>();
  command->add_option("what", options->what, "Name of a listed corpus, or the URL of a file");
  command->add_flag("--list", options->lists, "List public corpora and how to get them");
  command->add_option("--out", options->out, "Folder for the files");
  command->add_option("--sha256", options->sha256, "Expected SHA-256 of the file");
  command->add_flag("--unpack", options->unpacks, "Unpack downloaded tar and zip files");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      example("  sotto data fetch --list\n"
              "  sotto data fetch mini-librispeech --out corpora --unpack",
              "a network connection, except for --list"));
  command->callback([options] { run_fetch(*options); });
}

}  // namespace sotto::cli
