#include "support/tiny_corpus.h"

#include <c10/util/Half.h>
#include <c10/util/TypeCast.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sotto/core/rng.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"

namespace sotto::test {

namespace {

constexpr int64_t kLetters = 4;
constexpr std::string_view kAlphabet = "abcd";

}  // namespace

std::vector<data::Example> tiny_examples(int64_t num_utterances, uint64_t seed) {
  std::vector<data::Example> examples;
  for (int64_t u = 0; u < num_utterances; ++u) {
    const RandomStream stream({.seed = seed}, {.utterance = static_cast<uint64_t>(u)});
    data::Example& example = examples.emplace_back();
    example.utterance = u;
    example.feature_dim = kTinyFeatures;
    uint64_t n = 0;
    const auto draw = [&](int64_t end) {
      return static_cast<int64_t>(stream.uniform(n++) * static_cast<float>(end));
    };
    const int64_t num_letters = 1 + draw(5);
    for (int64_t i = 0; i < num_letters; ++i) {
      const int64_t letter = draw(kLetters);
      example.labels.push_back(static_cast<int32_t>(1 + letter));
      // A pause, then the letter: both of uneven length.
      const int64_t pause = 4 + draw(8);
      const int64_t length = 8 + draw(12);
      for (int64_t frame = 0; frame < pause + length; ++frame) {
        for (int64_t dim = 0; dim < kTinyFeatures; ++dim) {
          const bool is_on = frame >= pause && dim % kLetters == letter;
          const float value = (is_on ? 2.0f : 0.0f) + 0.3f * stream.normal(1000 + n++);
          example.values.push_back(static_cast<float>(c10::convert<c10::Half>(value)));
        }
      }
      example.rows += pause + length;
    }
  }
  return examples;
}

std::filesystem::path write_tiny_corpus(const std::filesystem::path& folder,
                                        const std::string& name, int64_t num_utterances,
                                        uint64_t seed) {
  std::ofstream features(folder / (name + ".f16"), std::ios::binary);
  const std::filesystem::path manifest_path = folder / (name + ".jsonl");
  std::ofstream manifest(manifest_path);
  int64_t offset = 0;
  for (const data::Example& example : tiny_examples(num_utterances, seed)) {
    for (const float value : example.values) {
      const auto half = c10::convert<c10::Half>(value);
      features.write(reinterpret_cast<const char*>(&half.x), sizeof(half.x));
    }
    std::string text;
    for (const int32_t label : example.labels) text += kAlphabet[static_cast<size_t>(label - 1)];
    const nlohmann::json line = {{"feature_filepath", name + ".f16"},
                                 {"frame_offset", offset},
                                 {"num_frames", example.rows},
                                 {"feature_dim", kTinyFeatures},
                                 {"duration", static_cast<double>(example.rows) / 100.0},
                                 {"text", text}};
    manifest << line.dump() << '\n';
    offset += example.rows;
  }
  return manifest_path;
}

train::RunConfig tiny_config() {
  train::RunConfig config;
  config.model.as<models::TransformerCtcOptions>().layers = 2;
  config.model.as<models::TransformerCtcOptions>().width = 32;
  config.model.as<models::TransformerCtcOptions>().heads = 2;
  config.model.as<models::TransformerCtcOptions>().hidden = 64;
  config.model.as<models::TransformerCtcOptions>().dropout = 0.1;
  config.optimizer.schedule.kind = optim::ScheduleKind::kConstant;
  config.optimizer.schedule.rate = 3e-3;
  config.effective_batch = data::EffectiveBatch::parse("8");
  config.epochs = 1;
  config.name = "tiny";
  return config;
}

}  // namespace sotto::test
