// What the benches of whole updates train: a network and its steps, from true lengths of utterances
// or from rows of text, with values of no meaning.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/train/step/run_config.h"

namespace sotto::bench {

// Utterances in a shuffled order that every run shares.
struct Lengths {
  std::vector<double> seconds;
  std::vector<int64_t> labels;
};

// `path`: lines of utterance, samples, seconds, words, characters, ... behind one of titles.
inline Lengths read_lengths(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw DataError({.attempted = "reading " + path, .found = "no such file"});
  std::string line;
  std::getline(file, line);
  Lengths in_order;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string name;
    int64_t samples = 0;
    double seconds = 0.0;
    int64_t words = 0;
    int64_t characters = 0;
    fields >> name >> samples >> seconds >> words >> characters;
    in_order.seconds.push_back(seconds);
    in_order.labels.push_back(characters);
  }
  Lengths shuffled;
  const RandomStream stream({.seed = 1, .purpose = Purpose::kShuffle});
  for (const int64_t index : stream.permutation(std::ssize(in_order.seconds))) {
    shuffled.seconds.push_back(in_order.seconds[static_cast<size_t>(index)]);
    shuffled.labels.push_back(in_order.labels[static_cast<size_t>(index)]);
  }
  return shuffled;
}

struct Workload {
  std::string name;
  train::RunConfig config;
  models::DataShape shape;
  // Rows of a second, or 1 for tokens, which are counted themselves.
  int64_t rows_per_second = 50;
  // Tokens of a row of text; 0: speech.
  int64_t sequence = 0;
  int64_t batch = 32;
  std::string unit = "audio-s/s";

  // Step number `step`: the next utterances of the list.
  std::vector<data::Example> examples(const Lengths& lengths, int64_t step,
                                      bool with_values) const {
    std::vector<data::Example> examples;
    for (int64_t i = 0; i < batch; ++i)
      examples.push_back(sequence > 0 ? text(step * batch + i)
                                      : speech(lengths, step * batch + i, with_values));
    return examples;
  }

  // Seconds of audio, or tokens.
  double amount(std::span<const data::Example> examples) const {
    int64_t rows = 0;
    for (const data::Example& example : examples) rows += example.rows;
    return static_cast<double>(rows) / static_cast<double>(rows_per_second);
  }

 private:
  data::Example text(int64_t number) const {
    data::Example example = data::make_dry_text(sequence);
    example.utterance = number;
    for (size_t i = 0; i < example.tokens.size(); ++i) {
      const auto index = static_cast<uint64_t>(number) * 977 + i * 7919;
      example.tokens[i] = static_cast<int32_t>(index % static_cast<uint64_t>(shape.vocabulary));
      example.labels[i] =
          static_cast<int32_t>((index + 7919) % static_cast<uint64_t>(shape.vocabulary));
    }
    return example;
  }

  data::Example speech(const Lengths& lengths, int64_t number, bool with_values) const {
    constexpr double kFramesASecond = 50.0;
    const RandomStream stream({.seed = 7});
    const auto index = static_cast<size_t>(number % std::ssize(lengths.seconds));
    const auto rows =
        static_cast<int64_t>(lengths.seconds[index] * static_cast<double>(rows_per_second));
    // Speech has fewer letters than frames; what a rule of thumb leaves over is cut.
    const auto frames = static_cast<int64_t>(lengths.seconds[index] * kFramesASecond);
    data::Example example = data::make_dry_example(rows, shape.feature_dim,
                                                   std::min(lengths.labels[index], frames / 3));
    example.utterance = static_cast<int64_t>(index);
    for (size_t l = 0; l < example.labels.size(); ++l)
      example.labels[l] = static_cast<int32_t>(1 + (l * 7 + index) % 31);
    if (with_values) {
      example.values.resize(static_cast<size_t>(rows * std::max<int64_t>(1, shape.feature_dim)));
      stream.fill_normal(example.values, static_cast<uint64_t>(index) * 4096);
    }
    return example;
  }
};

struct StackShape {
  std::string_view name;
  int64_t layers, width, heads;
};

inline constexpr std::array kStacks = {StackShape{"12x768", 12, 768, 12},
                                       StackShape{"24x1024", 24, 1024, 16},
                                       StackShape{"48x1280", 48, 1280, 16}};

// A transformer stack of a known shape behind one layer for stored features.
inline Workload stack_workload(const std::string& name) {
  const auto* found = std::ranges::find(kStacks, name, &StackShape::name);
  if (found == kStacks.end()) throw ConfigError({.attempted = "choosing a stack", .found = name});
  constexpr int64_t kFeatures = 80;
  Workload work{.name = name,
                .config = {},
                .shape = {.vocabulary = 32, .blank = 0, .feature_dim = kFeatures}};
  models::TransformerCtcOptions& model = work.config.model.as<models::TransformerCtcOptions>();
  model.layers = found->layers;
  model.width = found->width;
  model.heads = found->heads;
  model.hidden = 4 * found->width;
  model.dropout = 0.1;
  model.subsampling = nn::SubsamplingKind::kStacking;
  model.subsampling_factor = 1;
  return work;
}

// A preset as people fine-tune it: the feature encoder frozen, all dropout 0.1, no layer left out,
// nothing hidden; or the language model on rows of 512 tokens, 128 of them a step.
inline Workload model_workload(const std::string& preset) {
  Workload work{.name = preset, .config = {}, .shape = {.vocabulary = 32, .blank = 0}};
  work.config.model = models::ModelOptions::of_preset(preset);
  if (work.config.model.task().is_text()) {
    work.shape.vocabulary = 10'000;
    work.rows_per_second = 1;
    work.sequence = 512;
    work.batch = 128;
    work.unit = "tokens/s";
    work.config.reduction = models::Reduction::kTokens;
    return work;
  }
  work.rows_per_second = work.config.model.sample_rate();
  models::Wav2Vec2Options& model = work.config.model.as<models::Wav2Vec2Options>();
  model.freeze_feature_encoder = true;
  model.dropout = 0.1;
  model.activation_dropout = 0.1;
  model.feature_dropout = 0.1;
  model.final_dropout = 0.1;
  model.layer_drop = 0.0;
  model.mask = false;
  return work;
}

}  // namespace sotto::bench
