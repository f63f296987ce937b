// Archives that are written: read back to the same network, in the layout of NeMo.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/formats/torch_file.h"
#include "sotto/data/text/sentence_piece_file.h"
#include "sotto/models/hub/nemo.h"
#include "sotto/models/parakeet/parakeet_options.h"
#include "support/nemo_fixture.h"
#include "support/reader_samples.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::models {
namespace {

using test::contains;
using test::message_of;
using test::nemo_fixture;

std::string tokenizer_of(const std::filesystem::path& path) {
  const NemoArchive archive = NemoArchive::open(path);
  return std::string(
      archive.sentence_piece(nemo_tokenizer_name(nemo_settings(archive.parts(), path))));
}

void expect_same_weights(Model& a, Model& b) {
  for (const nn::Parameter& parameter : a.parameters().parameters())
    EXPECT_TRUE(b.parameters().find(parameter.spec.name)->value.equal(parameter.value))
        << parameter.spec.name;
}

struct LoadedNemo {
  HuggingFaceModel found;
  DataShape shape;
  std::unique_ptr<Model> model;
};

LoadedNemo load(const std::filesystem::path& path) {
  LoadedNemo loaded{.found = read_nemo(path), .shape = shape_of_nemo(path), .model = {}};
  loaded.model = loaded.found.options.make(loaded.shape, {});
  EXPECT_TRUE(load_hugging_face(path, *loaded.model).empty());
  return loaded;
}

class NemoCopy : public ::testing::TestWithParam<const char*> {
 protected:
  test::TempFolder folder_;
};

TEST_P(NemoCopy, IsWrittenAsItWasRead) {
  const std::filesystem::path from = nemo_fixture(GetParam());
  const LoadedNemo first = load(from);
  const auto to = folder_.path() / "copy.nemo";
  const std::vector<std::string> notes =
      write_nemo(to, {.options = first.found.options,
                      .shape = first.shape,
                      .weights = weights_as_stored(from, *first.model),
                      .tokenizer = tokenizer_of(from),
                      .reduction = first.found.reduction});
  EXPECT_TRUE(notes.empty()) << notes.front();
  const LoadedNemo second = load(to);
  EXPECT_EQ(format_yaml(write_options(second.found.options)),
            format_yaml(write_options(first.found.options)));
  EXPECT_EQ(second.found.reduction, first.found.reduction);
  expect_same_weights(*first.model, *second.model);
  EXPECT_EQ(tokenizer_of(to), tokenizer_of(from));

  // NeMo loads neither less nor more than it has.
  const TorchFile theirs = NemoArchive::open(from).take_weights();
  const TorchFile ours = NemoArchive::open(to).take_weights();
  EXPECT_EQ(ours.names(), theirs.names());
  for (const std::string& name : ours.names())
    EXPECT_EQ(ours.find(name)->shape, theirs.find(name)->shape) << name;
}

INSTANTIATE_TEST_SUITE_P(Heads, NemoCopy, ::testing::Values("ctc", "rnnt", "tdt"),
                         [](const auto& test) { return std::string(test.param); });

// A network whose blank is the first entry, as with our own tokenizers.
class NemoBlank : public NemoCopy {};

TEST_P(NemoBlank, BecomesTheLastEntry) {
  const LoadedNemo original = load(nemo_fixture(GetParam()));
  const DataShape shape{.vocabulary = 12, .blank = 0};
  const std::unique_ptr<Model> model = original.found.options.make(shape, {});
  const auto to = folder_.path() / "out.nemo";
  // Of twelve pieces the first is the blank.
  std::string tokenizer = test::nemo_tokenizer_sample();
  for (int i = 0; i < 5; ++i) tokenizer += test::nemo_tokenizer_sample();
  ASSERT_EQ(data::stored_pieces(tokenizer, "").size(), 12U);
  write_nemo(to, {.options = original.found.options,
                  .shape = shape,
                  .weights = model->named_weights(),
                  .tokenizer = tokenizer});
  const LoadedNemo moved = load(to);
  EXPECT_EQ(moved.shape.blank, 11);
  const std::vector<data::StoredPiece> pieces = data::stored_pieces(tokenizer_of(to), "");
  ASSERT_EQ(pieces.size(), 11U);
  EXPECT_EQ(pieces.front().text, "a");
  int num_moved = 0;
  for (const nn::Parameter& parameter : model->parameters().parameters()) {
    const at::Tensor before = parameter.value;
    const at::Tensor after = moved.model->parameters().find(parameter.spec.name)->value;
    if (before.equal(after)) continue;
    ++num_moved;
    EXPECT_TRUE(after[11].equal(before[0])) << parameter.spec.name;
    EXPECT_TRUE(after.narrow(0, 0, 11).equal(before.narrow(0, 1, 11))) << parameter.spec.name;
    EXPECT_TRUE(
        after.narrow(0, 12, after.size(0) - 12).equal(before.narrow(0, 12, after.size(0) - 12)));
  }
  // New biases are zero, so that they do not show it.
  EXPECT_GE(num_moved, 1);
}

INSTANTIATE_TEST_SUITE_P(Heads, NemoBlank, ::testing::Values("ctc", "rnnt", "tdt"),
                         [](const auto& test) { return std::string(test.param); });

TEST(NemoWriting, NetworksThatNemoDoesNotHaveAreRefused) {
  const auto refused = [](const char* preset, auto change) {
    ModelOptions options = ModelOptions::of_preset(preset);
    change(options);
    return message_of<ConfigError>([&] { check_known_to_nemo(options); });
  };
  EXPECT_PRED2(contains, refused("tiny", [](ModelOptions&) {}), "the family transformer_ctc");
  EXPECT_PRED2(contains,
               refused("parakeet-ctc-0.6b",
                       [](ModelOptions& options) {
                         options.as<ParakeetOptions>().convolution_norm = nn::InnerNormKind::kLayer;
                       }),
               "convolution_norm");
  EXPECT_PRED2(contains,
               refused("parakeet-ctc-0.6b",
                       [](ModelOptions& options) { options.as<ParakeetOptions>().hidden = 1000; }),
               "hidden 1000 with width 1024");
  EXPECT_PRED2(contains,
               refused("parakeet-ctc-0.6b",
                       [](ModelOptions& options) {
                         options.as<ParakeetOptions>().features =
                             kernels::LogMelOptions::of_kind(kernels::LogMelKind::kKaldi);
                       }),
               "features of another kind");
}

// Learned starts are what NeMo does not have.
TEST(NemoWriting, SaysThatALearnedStartIsLost) {
  const test::TempFolder folder;
  const LoadedNemo loaded = load(nemo_fixture("rnnt"));
  loaded.model->parameters().find("transducer.prediction.embedding.weight")->value[11].fill_(1.0);
  const std::vector<std::string> notes =
      write_nemo(folder.path() / "out.nemo", {.options = loaded.found.options,
                                              .shape = loaded.shape,
                                              .weights = loaded.model->named_weights(),
                                              .tokenizer = tokenizer_of(nemo_fixture("rnnt"))});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_PRED2(contains, notes.front(), "starts label sequences with zeros");
}

TEST(NemoNames, AreThoseOfTheState) {
  EXPECT_EQ(nemo_name("encoder.layers.3.conv.norm.running_var"),
            "encoder.layers.3.conv.batch_norm.running_var");
  EXPECT_EQ(nemo_name("encoder.layers.3.norm_conv.weight"), "encoder.layers.3.norm_conv.weight");
  EXPECT_EQ(nemo_name("decoder.decoder_projector.bias"), "joint.pred.bias");
}

}  // namespace
}  // namespace sotto::models
