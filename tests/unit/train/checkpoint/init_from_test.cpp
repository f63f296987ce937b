#include "sotto/train/checkpoint/init_from.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "sotto/core/error.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "support/checkpoints.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/training.h"

namespace sotto::train {
namespace {

using test::contains;
using test::in_numerics;
using test::make_learner;
using test::TinyModel;

class InitWeights : public ::testing::Test {
 protected:
  // A checkpoint after three steps.
  std::unique_ptr<Learner> write(const TinyModel& tiny, const std::string& name = "source") const {
    std::unique_ptr<Learner> learner = make_learner(tiny, 3);
    test::write_checkpoint(temp_.path() / name, tiny, *learner);
    return learner;
  }

  std::vector<std::string> init(Learner& learner, const std::string& name = "source",
                                const std::string& letters = "abcd") const {
    return init_weights({.source = temp_.path() / name}, test::tokenizer_of(letters), learner);
  }

  static at::Tensor value(Learner& learner, const std::string& name) {
    return learner.model->parameters().find(name)->value;
  }

  test::TempFolder temp_;
};

TEST_F(InitWeights, CopiesEverythingFromTheSameNetwork) {
  const TinyModel tiny = in_numerics(test::trained_wav2vec2(), Numerics::kFp32);
  const std::unique_ptr<Learner> source = write(tiny);
  const std::unique_ptr<Learner> learner = make_learner(tiny);
  EXPECT_TRUE(init(*learner).empty());
  EXPECT_TRUE(test::same_bits(test::weights_of(*learner), test::weights_of(*source)));
  // Weights alone: the moments are those of a beginning.
  EXPECT_EQ(tensors_of(learner->optimizer).front().tensor.abs().max().item<float>(), 0.0f);
}

// The bf16 remainder is copied too, into fp32 and into bf16.
TEST_F(InitWeights, CopiesAllBitsOfTheSource) {
  const TinyModel fp32 = in_numerics(test::trained_wav2vec2(), Numerics::kFp32);
  const TinyModel bf16 = in_numerics(test::trained_wav2vec2(), Numerics::kBf16Exact);
  const std::unique_ptr<Learner> source = write(fp32);
  const std::unique_ptr<Learner> between = make_learner(bf16);
  EXPECT_TRUE(init(*between).empty());
  test::write_checkpoint(temp_.path() / "between", bf16, *between);
  const std::unique_ptr<Learner> back = make_learner(fp32);
  EXPECT_TRUE(init(*back, "between").empty());
  EXPECT_TRUE(test::same_bits(test::weights_of(*back), test::weights_of(*source)));
}

TEST_F(InitWeights, CopiesWhatMatchesAndListsTheRest) {
  TinyModel tiny = test::tiny_models()[4];
  const std::unique_ptr<Learner> source = write(tiny);
  tiny.config.model.as<models::TransformerCtcOptions>().layers = 3;
  tiny.config.model.as<models::TransformerCtcOptions>().hidden = 128;
  const std::unique_ptr<Learner> learner = make_learner(tiny);
  const std::vector<at::Tensor> before = test::weights_of(*learner);
  const std::vector<std::string> notes = init(*learner);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_PRED2(contains, notes[0], "tensors are new: layers.2.");
  EXPECT_PRED2(contains, notes[1], "layers.0.ffn.in.weight is [64, 32] there and [128, 32] here");
  const std::string taken = "layers.1.attention.qkv.weight", fresh = "layers.1.ffn.in.weight";
  EXPECT_TRUE(at::equal(value(*learner, taken), value(*source, taken)));
  EXPECT_TRUE(at::equal(value(*learner, fresh), value(*make_learner(tiny), fresh)));
  TinyModel shorter = tiny;
  shorter.config.model.as<models::TransformerCtcOptions>().layers = 1;
  shorter.config.model.as<models::TransformerCtcOptions>().hidden = 64;
  const std::unique_ptr<Learner> one = make_learner(shorter);
  const std::vector<std::string> left = init(*one);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_PRED2(contains, left[0], "tensors were skipped: layers.1.");
}

// Rows of the head would belong to other characters.
TEST_F(InitWeights, SkipsTheHeadOfAnotherVocabulary) {
  const TinyModel tiny = test::tiny_models()[4];
  const std::unique_ptr<Learner> source = write(tiny);
  const std::unique_ptr<Learner> learner = make_learner(tiny);
  const std::vector<std::string> notes = init(*learner, "source", "abce");
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0], "its vocabulary differs: head.weight, head.bias start from random weights");
  EXPECT_PRED2(contains, notes[1], "2 tensors were skipped: head.bias, head.weight");
  const std::unique_ptr<Learner> fresh = make_learner(tiny);
  for (const nn::Parameter& parameter : learner->model->parameters().parameters()) {
    const std::string& name = parameter.spec.name;
    const bool is_head = name == "head.weight" || name == "head.bias";
    EXPECT_TRUE(at::equal(parameter.value, value(is_head ? *fresh : *source, name))) << name;
  }
}

TEST_F(InitWeights, UsesTheBestOfARun) {
  const TinyModel tiny = test::tiny_models()[4];
  const std::unique_ptr<Learner> best = write(tiny, "run/best");
  test::write_checkpoint(temp_.path() / "run/checkpoints/step-9", tiny, *make_learner(tiny, 1));
  const std::unique_ptr<Learner> learner = make_learner(tiny);
  init(*learner, "run");
  EXPECT_TRUE(test::same_bits(test::weights_of(*learner), test::weights_of(*best)));
}

TEST_F(InitWeights, RefusesMissingDamagedOrUnrelatedSources) {
  const TinyModel tiny = test::tiny_models()[4];
  write(tiny);
  const std::unique_ptr<Learner> learner = make_learner(test::tiny_models()[0]);
  const std::vector<at::Tensor> before = test::weights_of(*learner);
  EXPECT_PRED2(contains, test::message_of<DataError>([&] { init(*learner); }),
               "none of its tensors has the name and shape");
  EXPECT_THROW(init(*learner, "nowhere"), DataError);
  std::ofstream(temp_.path() / "source/optimizer.safetensors", std::ios::app) << "x";
  EXPECT_PRED2(contains, test::message_of<DataError>([&] { init(*learner); }),
               "optimizer.safetensors is ");
  EXPECT_TRUE(test::same_bits(test::weights_of(*learner), before));
}

TEST(PretrainedId, MatchesTheReleasedModel) {
  const auto id_of = [](const char* preset) {
    return models::ModelOptions::of_preset(preset).pretrained_id();
  };
  EXPECT_EQ(id_of("wav2vec2-large-lv60"), "facebook/wav2vec2-large-lv60");
  EXPECT_EQ(id_of("xls-r-1b"), "facebook/wav2vec2-xls-r-1b");
  for (const char* other : {"tiny", "small", "decoder-lm"}) EXPECT_EQ(id_of(other), "") << other;
}

}  // namespace
}  // namespace sotto::train
