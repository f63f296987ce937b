// Whisper: its sizes, its window, what is frozen, and what it refuses.
#include "sotto/models/whisper/whisper.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sotto/core/config/config.h"
#include "sotto/models/model_options.h"
#include "sotto/models/model_profile.h"
#include "support/thrown.h"
#include "support/tiny_models.h"

namespace sotto::models {
namespace {

using test::contains;
using test::message_of;

// As transformers 5.17 counts them, with the encoder's positions.
TEST(WhisperPresets, HaveTheParametersOfTheReleasedNetworks) {
  for (const auto& [name, parameters] : {std::pair("whisper-tiny", 37'760'640),
                                         {"whisper-tiny.en", 37'760'256},
                                         {"whisper-base", 72'593'920},
                                         {"whisper-small", 241'734'912},
                                         {"whisper-small.en", 241'734'144},
                                         {"whisper-medium", 763'857'920},
                                         {"whisper-large-v2", 1'543'304'960},
                                         {"whisper-large-v3", 1'543'490'560},
                                         {"whisper-large-v3-turbo", 808'878'080}}) {
    const ModelOptions options = ModelOptions::of_preset(name);
    EXPECT_EQ(profile_model(options, {.vocabulary = options.usual_vocabulary()}).parameters,
              parameters)
        << name;
  }
}

// A network of test::tiny_whisper() with its examples.
struct TinyWhisper {
  explicit TinyWhisper(const std::vector<std::string>& settings = {}) {
    options = test::tiny_whisper(WhisperWindow::kWhole).model;
    read_group(load_overrides(settings), as_group(options));
    options.validate();
    network = options.make(test::kWhisperShape, {});
  }

  data::MicroBatch batch(const std::vector<data::Example>& examples) {
    std::vector<int64_t> indices(examples.size());
    std::iota(indices.begin(), indices.end(), int64_t{0});
    return data::make_micro_batch(examples, indices, staging,
                                  {.decoder = network->outline().decoder});
  }
  at::Tensor logits(const std::vector<data::Example>& examples) {
    return dynamic_cast<Whisper&>(*network).logits(batch(examples));
  }
  // Sets random values that do not depend on settings: initial ones are zero in biases.
  void take_weights_of(TinyWhisper& other) {
    for (nn::Parameter& parameter : network->parameters().parameters())
      parameter.value.copy_(other.network->parameters().find(parameter.spec.name)->value);
  }
  // Returns the number of layers whose tapes are still open.
  int64_t step(const std::vector<data::Example>& examples) {
    nn::Tape tape;
    const data::MicroBatch all = batch(examples);
    network->parameters().zero_gradients();
    network->forward(all, {}, std::vector<float>(examples.size(), 1.0f), tape);
    network->backward(all, {}, tape);
    return tape.num_open();
  }
  const nn::Parameter& parameter(const std::string& name) {
    return *network->parameters().find(name);
  }

  ModelOptions options;
  std::unique_ptr<Model> network;
  device::HostMemory host{at::kCPU};
  device::StagingBuffer staging{host};
};

// An utterance as long as the window is the same in both; a shorter one is not.
TEST(WhisperWindows, AreFilledWithSilence) {
  TinyWhisper whole, own({"window=utterance"});
  own.take_weights_of(whole);
  std::vector<data::Example> examples = test::whisper_examples(2, 1);
  const int64_t window = whole.options.as<WhisperOptions>().window_samples();
  for (data::Example& example : examples) {
    example.values.resize(static_cast<size_t>(window), 0.0f);
    example.rows = window;
  }
  EXPECT_TRUE(whole.logits(examples).equal(own.logits(examples)));
  std::vector<data::Example> shorter = examples;
  for (data::Example& example : shorter) {
    example.rows = window / 2;
    example.values.resize(static_cast<size_t>(example.rows));
  }
  EXPECT_FALSE(whole.logits(shorter).equal(own.logits(shorter)));
  // The silence is that of zeros.
  for (data::Example& example : examples)
    std::fill(example.values.begin() + window / 2, example.values.end(), 0.0f);
  EXPECT_TRUE(whole.logits(shorter).equal(whole.logits(examples)));
}

TEST(WhisperWindows, CountAsAWhole) {
  const TinyWhisper whole, own({"window=utterance"});
  const auto& options = whole.options.as<WhisperOptions>();
  EXPECT_EQ(whole.network->size_of({.rows = 300, .labels = 4}).frames, options.positions);
  // 300 samples are 15 frames, of which the second convolution makes 8.
  EXPECT_EQ(own.network->size_of({.rows = 300, .labels = 4}).frames, 8);
  EXPECT_EQ(whole.options.max_rows(0), options.window_samples());
  EXPECT_EQ(whole.options.min_rows(0), 1);
  EXPECT_GT(own.options.min_rows(0), 1);
}

TEST(WhisperScorer, KnowsTheFramesOfTheAudioAlone) {
  TinyWhisper whole;
  std::vector<data::Example> examples = test::whisper_examples(1, 1);
  examples.front().rows = 300;
  examples.front().values.resize(300);
  const Recognition recognition = whole.network->recognise(whole.batch(examples));
  EXPECT_EQ(recognition.scorer->num_frames(), std::vector<int64_t>{8});
  const auto& options = whole.options.as<WhisperOptions>();
  EXPECT_EQ(recognition.scorer->max_tokens(), options.max_tokens - 4);
}

// The scores after the prompt are those of the whole sequence at once.
TEST(WhisperScorer, BeginsWithThePrompt) {
  TinyWhisper whole;
  const std::vector<data::Example> examples = test::whisper_examples(3, 1);
  const at::Tensor logits = whole.logits(examples);  // of start and labels, packed
  const Recognition recognition = whole.network->recognise(whole.batch(examples));
  const at::Tensor scores = recognition.scorer->begin({.max_tokens = 4});
  int64_t row = 0;
  for (int64_t u = 0; u < 3; ++u) {
    const at::Tensor expected = at::log_softmax(logits[row + 3], 0);
    EXPECT_TRUE(at::allclose(scores[u], expected, 1e-4, 1e-5)) << u;
    row += std::ssize(examples[static_cast<size_t>(u)].labels) + 1;
  }
}

TEST(WhisperFrozen, PartsHaveNoGradientAndChangeNoOther) {
  const std::vector<data::Example> examples = test::whisper_examples(4, 1);
  TinyWhisper trained;
  EXPECT_EQ(trained.step(examples), 0);
  EXPECT_FALSE(trained.parameter("positions.weight").gradient.defined());
  for (const std::vector<std::string>& settings :
       {std::vector<std::string>{"freeze_layers=1"},
        {"freeze_encoder=true"},
        {"freeze_encoder=true", "freeze_decoder_layers=1"}}) {
    TinyWhisper frozen(settings);
    EXPECT_EQ(frozen.step(examples), 0);
    int64_t num_frozen = 0;
    for (const nn::Parameter& parameter : frozen.network->parameters().parameters()) {
      const nn::Parameter& same = trained.parameter(parameter.spec.name);
      if (parameter.gradient.defined())
        EXPECT_TRUE(parameter.gradient.equal(same.gradient)) << parameter.spec.name;
      else
        ++num_frozen;
    }
    EXPECT_GT(num_frozen, 1) << settings.front();
    EXPECT_FALSE(frozen.parameter("layers.0.ffn.in.weight").gradient.defined());
    EXPECT_FALSE(frozen.parameter("subsampling.conv1.weight").gradient.defined());
    EXPECT_EQ(frozen.parameter("norm.weight").gradient.defined(),
              settings.front() == "freeze_layers=1");
    EXPECT_EQ(frozen.parameter("decoder.embedding.weight").gradient.defined(),
              settings.size() == 1);
    EXPECT_TRUE(frozen.parameter("decoder.layers.1.cross.kv.weight").gradient.defined());
  }
}

TEST(WhisperFrozen, LayersOfTheDecoderNeedAFrozenEncoder) {
  EXPECT_PRED2(contains, message_of<ConfigError>([] { TinyWhisper({"freeze_decoder_layers=1"}); }),
               "freeze_encoder: true");
}

// A step that skips all layers of the decoder has no gradient for the encoder, whose tapes end with
// the step.
TEST(WhisperLayerDrop, MayDropEveryLayerOfTheDecoder) {
  TinyWhisper dropped({"decoder_layer_drop=0.999999"});
  dropped.step(test::whisper_examples(2, 1));
  EXPECT_EQ(dropped.parameter("norm.weight").gradient.abs().max().item<float>(), 0.0f);
}

TEST(WhisperSettings, AreRefusedIfTheyCannotBeBuilt) {
  const auto refused = [](const std::string& setting) {
    return message_of<ConfigError>([&] { TinyWhisper({setting}); });
  };
  EXPECT_PRED2(contains, refused("heads=3"), "a width of 32 with 3 heads");
  EXPECT_PRED2(contains, refused("decoder_heads=5"), "a width of 32 with 5 heads");
  EXPECT_PRED2(contains, refused("features.kind=kaldi"), "features.kind kaldi");
  EXPECT_PRED2(contains, refused("tokens.start=9999"), "two entries of the vocabulary");
  EXPECT_PRED2(contains, refused("freeze_layers=3"), "freeze_layers 3 of 2 layers");
  EXPECT_PRED2(contains, refused("tokens.vocabulary=21"), "a tokenizer of 20 entries");
  EXPECT_PRED2(contains, message_of<ConfigError>([] {
                 test::tiny_whisper(WhisperWindow::kWhole)
                     .model.make({.vocabulary = test::kWhisperShape.vocabulary, .feature_dim = 80},
                                 {});
               }),
               "stored features of width 80");
}

TEST(WhisperSettings, OfMasksNeedMasks) {
  const ModelOptions preset = ModelOptions::of_preset("whisper-tiny");
  ModelOptions options = preset;
  options.as<WhisperOptions>().mask_time_length = 5;
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { options.check_effects(preset); }),
               "mask: false");
  options.as<WhisperOptions>().mask = true;
  options.check_effects(preset);
}

}  // namespace
}  // namespace sotto::models
