// The mean of checkpoints, against means that are taken here.
#include "sotto/train/checkpoint/average.h"

#include <gtest/gtest.h>

#include <fstream>

#include "sotto/core/error.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/train/checkpoint/init_from.h"
#include "sotto/train/recognition/recogniser.h"
#include "support/checkpoints.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/training.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::in_numerics;
using test::make_learner;
using test::TinyModel;

class Averages : public ::testing::Test {
 protected:
  fs::path write(const std::string& name, const TinyModel& tiny, const Learner& learner,
                 const std::string& letters = "abcd") const {
    return test::write_checkpoint(temp_.path() / name, tiny, learner, letters);
  }

  // Checkpoints after 1, 2 and 5 steps, and the weights of each in fp32.
  std::vector<fs::path> write_three(const TinyModel& tiny) {
    const TinyModel fp32 = in_numerics(tiny, Numerics::kFp32);
    std::vector<fs::path> folders;
    for (const int64_t num_steps : {1, 2, 5}) {
      const std::unique_ptr<Learner> learner = make_learner(tiny, num_steps);
      folders.push_back(write(fmt::format("step-{}", num_steps), tiny, *learner));
      weights_.push_back(in_fp32(fp32, folders.back()));
    }
    return folders;
  }

  // By another way than the means are made.
  static std::vector<at::Tensor> in_fp32(const TinyModel& fp32, const fs::path& folder) {
    const std::unique_ptr<Learner> learner = make_learner(fp32);
    EXPECT_TRUE(init_weights({.source = folder}, test::tokenizer_of("abcd"), *learner).empty());
    return test::weights_of(*learner);
  }

  at::Tensor mean(size_t parameter) const {
    at::Tensor sum = weights_[0][parameter].to(at::kDouble);
    for (size_t i = 1; i < weights_.size(); ++i) sum = sum + weights_[i][parameter].to(at::kDouble);
    return (sum / static_cast<double>(weights_.size())).to(at::kFloat);
  }

  test::TempFolder temp_;
  std::vector<std::vector<at::Tensor>> weights_;
};

TEST_F(Averages, AreTheBitExactMeans) {
  for (const Numerics numerics : {Numerics::kFp32, Numerics::kBf16Exact}) {
    weights_.clear();
    const TinyModel tiny = in_numerics(test::trained_wav2vec2(), numerics);
    fs::remove_all(temp_.path() / "mean");
    average_checkpoints(write_three(tiny), temp_.path() / "mean");
    const std::vector<at::Tensor> found =
        in_fp32(in_numerics(tiny, Numerics::kFp32), temp_.path() / "mean");
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(at::equal(found[i], mean(i))) << i;
      EXPECT_FALSE(at::equal(found[i], weights_.back()[i])) << i;
    }
  }
}

// As close as the format allows, with 8 and 16 bits less than fp32.
TEST_F(Averages, AreRoundedToTheAvailableBits) {
  for (const auto& [bits, bound] : {std::pair{8, 0x1p-16}, {0, 0x1p-8}}) {
    weights_.clear();
    const TinyModel tiny = in_numerics(test::trained_wav2vec2(), Numerics::kBf16Exact, bits);
    fs::remove_all(temp_.path() / "mean");
    average_checkpoints(write_three(tiny), temp_.path() / "mean");
    const std::vector<at::Tensor> found =
        in_fp32(in_numerics(tiny, Numerics::kFp32), temp_.path() / "mean");
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(at::allclose(found[i], mean(i), bound, 0.0)) << i;
  }
}

TEST_F(Averages, CanBeUsedForRecognition) {
  const TinyModel tiny = in_numerics(test::trained_wav2vec2(), Numerics::kBf16Lean);
  const std::vector<fs::path> folders = write_three(tiny);
  average_checkpoints(folders, temp_.path() / "mean");
  check_checkpoint(temp_.path() / "mean", CheckpointPart::kAll);
  const Recogniser recogniser(temp_.path() / "mean", int64_t{64} << 20);
  EXPECT_EQ(recogniser.checkpoint().state.step, read_checkpoint(folders.back()).state.step);
}

TEST_F(Averages, AreRefusedForUnrelatedCheckpoints) {
  const TinyModel tiny = test::tiny_models()[4];
  const fs::path first = write("first", tiny, *make_learner(tiny));
  const auto refusal_with = [&](const fs::path& other) {
    return test::message_of<DataError>(
        [&] { average_checkpoints({other, first}, temp_.path() / "mean"); });
  };
  TinyModel wider = tiny;
  wider.config.model.as<models::TransformerCtcOptions>().hidden = 128;
  EXPECT_PRED2(contains, refusal_with(write("wider", wider, *make_learner(wider))),
               "layers.0.ffn.in.weight is [128, 32] there and [64, 32] here");
  EXPECT_PRED2(contains, refusal_with(write("letters", tiny, *make_learner(tiny), "abce")),
               "a different vocabulary");
  const TinyModel bf16 = in_numerics(tiny, Numerics::kBf16Exact);
  EXPECT_PRED2(contains, refusal_with(write("bf16", bf16, *make_learner(bf16))),
               "different numerics");
  const fs::path damaged = write("damaged", tiny, *make_learner(tiny));
  fs::resize_file(damaged / "model.safetensors", 100);
  EXPECT_PRED2(contains, refusal_with(damaged), "damaged: model.safetensors is 100 bytes long");
  EXPECT_FALSE(fs::exists(temp_.path() / "mean"));
}

TEST_F(Averages, UseTheLatestCheckpointsOfARun) {
  const TinyModel tiny = test::tiny_models()[4];
  for (const char* name :
       {"run/checkpoints/step-2", "run/checkpoints/step-10", "run/checkpoints/step-4"})
    write(name, tiny, *make_learner(tiny));
  const fs::path checkpoints = temp_.path() / "run/checkpoints";
  EXPECT_EQ(newest_checkpoints(temp_.path() / "run", 2),
            (std::vector<fs::path>{checkpoints / "step-4", checkpoints / "step-10"}));
  EXPECT_PRED2(contains,
               test::message_of<DataError>([&] { newest_checkpoints(temp_.path() / "run", 4); }),
               "3 checkpoints. Expected at least 4. keep_checkpoints sets how many a run keeps.");
}

}  // namespace
}  // namespace sotto::train
