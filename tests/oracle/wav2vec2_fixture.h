// wav2vec2 as tests/oracle/make_wav2vec2.py has it: a folder of Hugging Face, utterances, and what
// transformers made of them.
#pragma once

#include "oracle/model_oracle.h"
#include "oracle/optimizer_json.h"
#include "sotto/models/hugging_face.h"
#include "sotto/models/wav2vec2_options.h"
#include "sotto/train/step/run_config.h"

namespace sotto::test {

class Wav2Vec2Fixture : public ModelFixture {
 public:
  static constexpr models::DataShape kShape{.vocabulary = 12, .blank = 0};

  explicit Wav2Vec2Fixture(const std::string& variant) : ModelFixture("wav2vec2/" + variant) {}

  train::RunConfig config() const {
    train::RunConfig config;
    config.model = models::read_hugging_face(folder()).options;
    config.model.as<models::Wav2Vec2Options>().freeze_feature_encoder = false;
    // A checkpoint of pretraining has no steps to compare.
    if (scalars().contains("optimizer")) config.optimizer = optimizer_of(scalars().at("optimizer"));
    return config;
  }

  std::vector<data::Example> examples() const {
    std::vector<data::Example> examples;
    for (int64_t u = 0; has(fmt::format("raw.{}", u)); ++u) {
      const at::Tensor values = tensor(fmt::format("raw.{}", u)).contiguous();
      data::Example& example = examples.emplace_back();
      example.utterance = u;
      example.values = {values.const_data_ptr<float>(),
                        values.const_data_ptr<float>() + values.numel()};
      example.rows = values.numel();
      if (has(fmt::format("labels.{}", u)))
        example.labels = whole_numbers(fmt::format("labels.{}", u));
    }
    return examples;
  }

  // Names of parameters whose exact gradient is zero.
  std::set<std::string> zero_gradients() const {
    return scalars().at("zero_gradients").get<std::set<std::string>>();
  }
};

}  // namespace sotto::test
