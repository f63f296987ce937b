// dump_text ACTION FILE INPUT OUTPUT: what our byte-level BPE and normalisers make of texts. Input
// and output have a JSON value per line. `make oracle` compares them with those of transformers.
//   encode     FILE: a vocab.json or tokenizer.json; texts to {"labels": ..., "text": ...}, decoded
//   decode     FILE: the same; lists of labels to texts
//   prompt     FILE: a vocab.json; {"language": ..., "task": ..., "timestamps": ...} to the tokens
//              from the start of a transcript to its text
//   basic, basic_diacritics, basic_letters   FILE: none; texts to texts
//   english    FILE: a normalizer.json; texts to texts
#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/data/text/byte_bpe.h"
#include "sotto/data/text/whisper_tokens.h"
#include "sotto/decode/text_normalizer.h"

namespace {

using namespace sotto;  // NOLINT: a program of one file
using decode::NormalizerKind;
using decode::TextNormalizer;
using nlohmann::json;

std::function<json(const json&)> normalised_by(TextNormalizer::Options options) {
  const auto normalizer = std::make_shared<TextNormalizer>(std::move(options));
  return
      [normalizer](const json& text) -> json { return normalizer->apply(text.get<std::string>()); };
}

std::function<json(const json&)> prompts_of(const data::ByteBpe& vocabulary) {
  return [tokens = data::WhisperTokens(vocabulary)](const json& wanted) -> json {
    const data::WhisperPrompt prompt{
        .language = wanted.at("language"),
        .task = value_of(wanted.at("task").get<std::string>(), data::kWhisperTasks),
        .has_timestamps = wanted.at("timestamps")};
    std::vector<int32_t> all = {tokens.start()};
    for (const int32_t token : tokens.prompt(prompt)) all.push_back(token);
    return all;
  };
}

std::function<json(const json&)> action_of(const std::string& action, const std::string& file) {
  if (action == "encode" || action == "decode") {
    const auto model = std::make_shared<data::ByteBpe>(data::ByteBpe::read(file));
    if (action == "decode")
      return [model](const json& labels) -> json {
        return model->decode(labels.get<std::vector<int32_t>>());
      };
    return [model](const json& text) -> json {
      std::vector<std::string> unknown;
      const std::vector<int32_t> labels = model->encode(text.get<std::string>(), unknown);
      return {{"labels", labels}, {"text", model->decode(labels)}};
    };
  }
  if (action == "prompt") return prompts_of(data::ByteBpe::read(file));
  if (action == "basic") return normalised_by({.kind = NormalizerKind::kBasic});
  if (action == "basic_diacritics")
    return normalised_by({.kind = NormalizerKind::kBasic, .removes_diacritics = true});
  if (action == "basic_letters")
    return normalised_by({.kind = NormalizerKind::kBasic, .splits_letters = true});
  if (action == "english")
    return normalised_by({.kind = NormalizerKind::kEnglish,
                          .spellings = decode::parse_spellings(read_text_file(file), file)});
  throw ConfigError({.attempted = "dumping texts", .found = action, .expected = "a known action"});
}

void dump(const std::vector<std::string>& words) {
  const auto action = action_of(words[0], words[1]);
  std::ifstream in(words[2]);
  std::ofstream out(words[3]);
  for (std::string line; std::getline(in, line);) out << action(json::parse(line)).dump() << '\n';
  out.close();
  if (!out) throw std::runtime_error("could not write " + words[3]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: dump_text ACTION FILE INPUT OUTPUT\n");
    return 2;
  }
  try {
    dump({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "dump_text: {}\n", error.what());
    return 2;
  }
  return 0;
}
