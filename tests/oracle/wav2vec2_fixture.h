// wav2vec2 as tests/oracle/make_wav2vec2.py has it: a folder of Hugging Face, utterances, and what
// transformers made of them.
#pragma once

#include "oracle/hugging_face_fixture.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"

namespace sotto::test {

class Wav2Vec2Fixture : public HuggingFaceFixture {
 public:
  static constexpr models::DataShape kShape{.vocabulary = 12, .blank = 0};

  explicit Wav2Vec2Fixture(const std::string& variant)
      : HuggingFaceFixture("wav2vec2/" + variant) {}

  train::RunConfig config() const {
    train::RunConfig config = config_of_folder();
    config.model.as<models::Wav2Vec2Options>().freeze_feature_encoder = false;
    return config;
  }
};

}  // namespace sotto::test
