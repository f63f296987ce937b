// `sotto tokenizer`: trains tokenizers on texts, and applies them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/number_checks.h"
#include "cli/commands/text_options.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/data/text/text_sample.h"
#include "sotto/data/text/tokenizer.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;
using data::SentencePieceTraining;

constexpr const char* kCharacters = "char";

struct TokenizerTrainOptions {
  std::vector<fs::path> inputs;
  std::string type = "bpe";
  std::optional<int64_t> size;
  std::optional<double> coverage;
  std::optional<int64_t> max_texts;
  int64_t seed = 1;
  data::TextRules rules;
  fs::path out;
  bool json = false;
};

struct UseOptions {
  fs::path tokenizer;
  std::vector<std::string> words;
  data::TextRules rules;
  bool json = false;
};

void check_train_options(const TokenizerTrainOptions& options) {
  options.rules.validate();
  const bool is_characters = options.type == kCharacters;
  if (is_characters && (options.size || options.coverage || options.max_texts)) {
    throw ConfigError({.attempted = "training a tokenizer of characters",
                       .found = "--size, --coverage or --max-texts",
                       .expected = "none of them: it contains every character of the texts"});
  }
  const std::string wanted = is_characters ? ".json" : ".model";
  if (options.out.extension() == wanted) return;
  throw ConfigError({.attempted = fmt::format("training a tokenizer of type {}", options.type),
                     .found = fmt::format("--out {}", options.out.string()),
                     .expected = fmt::format("a name that ends in {}", wanted)});
}

// The texts used for training, and the number of vocabulary entries.
struct Trained {
  data::TextSample sample;
  int64_t size = 0;
};

void write_bytes(const fs::path& path, const std::string& bytes) {
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  write_text_synced(path, bytes);
}

Trained train_characters(const TokenizerTrainOptions& options,
                         const std::function<void(int64_t)>& show) {
  Trained trained;
  data::CharacterSet characters;
  data::visit_texts(
      options.inputs, options.rules,
      [&](const std::string& text) {
        characters.add(text);
        ++trained.sample.num_texts;
        trained.sample.num_bytes += std::ssize(text);
      },
      show);
  const data::Vocabulary vocabulary = data::Vocabulary::from_characters(characters);
  write_bytes(options.out, vocabulary.to_json());
  trained.size = vocabulary.size();
  return trained;
}

Trained train_pieces(const TokenizerTrainOptions& options,
                     const std::function<void(int64_t)>& show) {
  data::TextSampleOptions sampling{.seed = options.seed};
  sampling.max_texts = options.max_texts.value_or(sampling.max_texts);
  Trained trained{.sample = data::sample_texts(options.inputs, options.rules, sampling, show),
                  .size = 0};
  Progress progress("training");
  progress.show(0, 1, fmt::format("{} texts", trained.sample.texts.size()));
  SentencePieceTraining training{.kind = options.type == "bpe"
                                             ? SentencePieceTraining::Kind::kBpe
                                             : SentencePieceTraining::Kind::kUnigram};
  training.size = options.size.value_or(training.size);
  training.character_coverage = options.coverage.value_or(training.character_coverage);
  write_bytes(options.out, data::train_sentence_piece(trained.sample.texts, training));
  trained.size = training.size;
  return trained;
}

void run_tokenizer_train(const TokenizerTrainOptions& options) {
  check_train_options(options);
  for (const fs::path& input : options.inputs) check_is_another(options.out, input);
  const auto start = std::chrono::steady_clock::now();
  Progress progress("reading");
  const int64_t total = total_bytes(options.inputs);
  const auto show = [&](int64_t bytes) { progress.show(bytes >> 20, total >> 20, "MiB"); };
  const Trained trained =
      options.type == kCharacters ? train_characters(options, show) : train_pieces(options, show);
  progress.clear();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (options.json) {
    const nlohmann::ordered_json json = {{"format_version", 1},
                                         {"tokenizer", options.out.string()},
                                         {"type", options.type},
                                         {"size", trained.size},
                                         {"texts", trained.sample.num_texts},
                                         {"bytes", trained.sample.num_bytes},
                                         {"seconds", elapsed.count()}};
    std::cout << json_text(json);
    return;
  }
  std::cout << fmt::format("{}: {} entries ({}), of {} texts, {:.1f} MB, in {:.1f} s\n",
                           options.out.string(), trained.size, options.type,
                           trained.sample.num_texts,
                           static_cast<double>(trained.sample.num_bytes) / 1e6, elapsed.count());
}

// Calls `use` for each word of the command line, or for the lines of standard input.
void for_each_line(const std::vector<std::string>& words,
                   const std::function<void(const std::string&)>& use) {
  for (const std::string& word : words) use(word);
  if (!words.empty()) return;
  for (std::string line; std::getline(std::cin, line);) use(line);
}

void run_encode(const UseOptions& options) {
  options.rules.validate();
  const data::Tokenizer tokenizer = data::Tokenizer::read(options.tokenizer, options.rules);
  for_each_line(options.words, [&](const std::string& text) {
    const data::Tokenizer::Encoded encoded = tokenizer.encode(text);
    if (options.json) {
      const nlohmann::ordered_json json = {
          {"text", encoded.text}, {"labels", encoded.labels}, {"unknown", encoded.unknown}};
      std::cout << json_text(json, -1);
      return;
    }
    std::cout << fmt::format("{}\n", fmt::join(encoded.labels, " "));
    if (!encoded.unknown.empty())
      std::cerr << fmt::format("unknown: '{}' in \"{}\"\n", fmt::join(encoded.unknown, "', '"),
                               encoded.text);
  });
}

std::vector<int32_t> parse_labels(const std::string& line, const data::Tokenizer& tokenizer) {
  std::vector<int32_t> labels;
  const char* at = line.data();
  const char* end = at + line.size();
  while (true) {
    while (at != end && (*at == ' ' || *at == ',' || *at == '\t')) ++at;
    if (at == end) return labels;
    int32_t label = 0;
    const auto [rest, error] = std::from_chars(at, end, label);
    if (error != std::errc() || label < 0 || label >= tokenizer.size()) {
      throw DataError({.attempted = "decoding labels",
                       .found = fmt::format("'{}'", line),
                       .expected = fmt::format("numbers from 0 to {}", tokenizer.size() - 1)});
    }
    labels.push_back(label);
    at = rest;
  }
}

void run_decode(const UseOptions& options) {
  const data::Tokenizer tokenizer = data::Tokenizer::read(options.tokenizer, options.rules);
  for_each_line(options.words, [&](const std::string& line) {
    const std::string text = tokenizer.decode(parse_labels(line, tokenizer));
    if (options.json) {
      std::cout << json_text({{"text", text}}, -1);
    } else {
      std::cout << text << '\n';
    }
  });
}

void add_train_command(CLI::App& tokenizer) {
  CLI::App* command = tokenizer.add_subcommand("train", "Train a tokenizer on texts");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<TokenizerTrainOptions>();
  command
      ->add_option(
          "texts", options->inputs,
          "Manifests or other JSON lines with a text (.jsonl), or plain text, one per line")
      ->required();
  command->add_option("--type", options->type, "bpe, unigram (SentencePiece) or char")
      ->check(CLI::IsMember({"bpe", "unigram", kCharacters}));
  command->add_option("--size", options->size, "Vocabulary size of bpe and unigram (10000)")
      ->check(CLI::Range(4, 1'000'000));
  command->add_option("--out", options->out, "File to write: .model, or .json for characters")
      ->required();
  command->add_option("--coverage", options->coverage, "Share of characters that get an entry (1)")
      ->check(between(0.5, 1.0));
  command
      ->add_option("--max-texts", options->max_texts,
                   "Maximum number of texts to learn from, chosen randomly (1000000)")
      ->check(positive());
  command->add_option("--seed", options->seed, "Random seed of that choice")->check(not_negative());
  add_text_rules(*command, options->rules);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      example("  sotto tokenizer train books.txt --type bpe --size 10000 --out books.model\n"
              "  sotto tokenizer train train.jsonl --type char --case lower --out vocab.json",
              "a text or a manifest of your own"));
  command->callback([options] { run_tokenizer_train(*options); });
}

void add_use_command(CLI::App& tokenizer, bool encodes) {
  CLI::App* command = tokenizer.add_subcommand(
      encodes ? "encode" : "decode", encodes ? "Encode texts as labels" : "Decode labels to texts");
  auto options = std::make_shared<UseOptions>();
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "A vocab.json, a .model, a tokenizer.json, or a folder with one of them")
      ->required();
  command->add_option(encodes ? "texts" : "labels", options->words,
                      encodes
                          ? "Texts; without any, lines of standard input"
                          : "Labels of a text, as one word; without any, lines of standard input");
  if (encodes) add_text_rules(*command, options->rules);
  command->add_flag("--json", options->json, "Print JSON, one object per line");
  command->footer(example(encodes
                              ? "  sotto tokenizer encode --tokenizer books.model \"W Tyńcu\""
                              : "  sotto tokenizer decode --tokenizer books.model \"340 17 2203\"",
                          "books.model: sotto tokenizer train makes it"));
  command->callback([options, encodes] { encodes ? run_encode(*options) : run_decode(*options); });
}

}  // namespace

void add_tokenizer(CLI::App& app, const GlobalOptions&) {
  CLI::App* tokenizer =
      app.add_subcommand("tokenizer", "Train and use tokenizers (characters or SentencePiece)");
  tokenizer->footer(example("  sotto tokenizer train train.jsonl --out tokenizer.model",
                            "a manifest train.jsonl, as sotto data import writes it"));
  add_train_command(*tokenizer);
  add_use_command(*tokenizer, /*encodes=*/true);
  add_use_command(*tokenizer, /*encodes=*/false);
}

}  // namespace sotto::cli
