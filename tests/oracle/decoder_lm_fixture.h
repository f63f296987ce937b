// The decoder language model as tests/oracle/make_decoder_lm.py has it: weights, rows of tokens,
// and what its PyTorch twin made of them.
#pragma once

#include "oracle/model_oracle.h"
#include "oracle/optimizer_json.h"
#include "sotto/models/decoder_lm/decoder_lm.h"
#include "sotto/models/files/tensor_file.h"
#include "sotto/train/step/run_config.h"

namespace sotto::test {

class DecoderLmFixture : public ModelFixture {
 public:
  explicit DecoderLmFixture(const std::string& variant) : ModelFixture("decoder_lm/" + variant) {}

  train::RunConfig config() const {
    const nlohmann::json& shape = scalars().at("shape");
    train::RunConfig config;
    config.model = models::ModelOptions::of_preset("decoder-lm");
    models::DecoderLmOptions& model = config.model.as<models::DecoderLmOptions>();
    model.layers = shape.at("layers");
    model.width = shape.at("width");
    model.heads = shape.at("heads");
    model.hidden = shape.at("hidden");
    model.dropout = 0.0;
    model.positions = value_of(shape.at("positions").get<std::string>(), nn::kPositionKinds);
    model.max_tokens = shape.at("max_frames");
    model.tied = shape.at("tied");
    model.label_smoothing = scalars().at("label_smoothing");
    config.optimizer = optimizer_of(scalars().at("optimizer"));
    return config;
  }

  models::DataShape shape() const { return {.vocabulary = scalars().at("shape").at("vocabulary")}; }

  std::vector<data::Example> examples() const {
    std::vector<data::Example> examples;
    for (int64_t u = 0; has(fmt::format("tokens.{}", u)); ++u) {
      data::Example& example = examples.emplace_back();
      example.utterance = u;
      example.tokens = whole_numbers(fmt::format("tokens.{}", u));
      example.labels = whole_numbers(fmt::format("targets.{}", u));
      example.rows = std::ssize(example.tokens);
    }
    return examples;
  }

  void load(models::Model& model) const {
    models::load_tensors(folder() / "model.safetensors", model.named_weights());
  }

  // Of q, k and v in one vector the k's has no gradient but rounding errors.
  at::Tensor without_zeros(const std::string& name, const at::Tensor& values) const {
    const nlohmann::json& zeros = scalars().at("zero_gradients");
    if (!zeros.contains(name)) return values;
    const int64_t first = zeros.at(name)[0], end = zeros.at(name)[1];
    return at::cat({values.narrow(0, 0, first), values.narrow(0, end, values.size(0) - end)});
  }
};

}  // namespace sotto::test
