#include "sotto/train/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/train/recogniser.h"
#include "support/checkpoints.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;

class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints() { write("run/checkpoints/step-3"); }

  fs::path write(const std::string& name) const {
    return test::write_checkpoint(temp_.path() / name, tiny_, *learner_);
  }
  fs::path at(const std::string& name) const { return temp_.path() / name; }

  // Flips a bit in the middle of a file.
  static void damage(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<std::streamoff>(fs::file_size(path) / 2);
    file.seekg(place);
    const int byte = file.get();
    file.seekp(place);
    file.put(static_cast<char>(byte ^ 0x10));
  }

  test::TinyModel tiny_ = test::trained_wav2vec2();
  std::unique_ptr<Learner> learner_ = test::make_learner(tiny_);
  test::TempFolder temp_;
};

TEST_F(Checkpoints, AreRefusedByNameWhereAnyOfTheirFilesIsDamaged) {
  const fs::path folder = at("run/checkpoints/step-3");
  check_checkpoint(folder, CheckpointPart::kAll);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  EXPECT_EQ(names.size(), 8u);
  for (const std::string& name : names) {
    write("copy");
    damage(at("copy") / name);
    const std::string message =
        message_of<DataError>([&] { check_checkpoint(at("copy"), CheckpointPart::kAll); });
    EXPECT_PRED2(contains, message, at("copy").string());
    EXPECT_PRED2(contains, message, name == "files.json" ? name : name + " is damaged");
    write("copy");
    fs::remove(at("copy") / name);
    EXPECT_PRED2(contains,
                 message_of<DataError>([&] { check_checkpoint(at("copy"), CheckpointPart::kAll); }),
                 name + " is missing");
  }
}

TEST_F(Checkpoints, RecogniseWithoutTheirOptimizerAndNotWithDamagedWeights) {
  const fs::path folder = at("run/checkpoints/step-3");
  damage(optimizer_path(folder));
  EXPECT_NO_THROW(Recogniser(at("run"), int64_t{64} << 20));
  EXPECT_THROW(check_checkpoint(folder, CheckpointPart::kAll), DataError);
  damage(weights_path(folder));
  EXPECT_PRED2(contains, message_of<DataError>([&] { Recogniser(at("run"), int64_t{64} << 20); }),
               "step-3: model.safetensors is damaged");
}

TEST_F(Checkpoints, HoldTheStepsThatChangedNothing) {
  RunState state;
  state.step = 9;
  state.shape = tiny_.shape;
  state.skipped = {.of_all = 2, .of_layers = {{"layers.0.", 3}, {"layers.1.", 1}}};
  train::write_checkpoint(
      at("counted"), *learner_,
      {.state = state, .config = tiny_.config, .tokenizer = test::tokenizer_of("abcd")});
  EXPECT_EQ(read_checkpoint(at("counted")).state.skipped, state.skipped);
  // One that was written before they were counted.
  nlohmann::json json = nlohmann::json::parse(test::content_of(at("counted/state.json")));
  json.erase("skipped_steps");
  temp_.write("counted/state.json", json.dump());
  EXPECT_EQ(read_checkpoint(at("counted")).state.skipped, optim::SkippedSteps{});
}

// Of a network whose head has more outputs than the vocabulary has entries.
TEST_F(Checkpoints, KeepAHeadThatIsLargerThanTheVocabulary) {
  const fs::path folder = test::write_checkpoint(at("large"), tiny_, *learner_, "a");
  EXPECT_LT(test::tokenizer_of("a").size(), tiny_.shape.vocabulary);
  EXPECT_EQ(read_checkpoint(folder).tokenizer.size(), tiny_.shape.vocabulary);
}

TEST_F(Checkpoints, OfARunAreTheBestOrTheNewest) {
  EXPECT_EQ(find_checkpoint(at("run")), at("run/checkpoints/step-3"));
  write("run/checkpoints/step-12");
  EXPECT_EQ(find_checkpoint(at("run")), at("run/checkpoints/step-12"));
  write("run/best");
  EXPECT_EQ(find_checkpoint(at("run")), at("run/best"));
  EXPECT_EQ(find_checkpoint(at("run/checkpoints/step-3")), at("run/checkpoints/step-3"));
  EXPECT_EQ(find_checkpoint(at("nowhere")), std::nullopt);
}

TEST_F(Checkpoints, BeyondAStepAreSetAside) {
  for (const char* name : {"step-4", "step-20", "step-4.aside"})
    write(std::string("run/checkpoints/") + name);
  EXPECT_TRUE(set_aside_beyond(at("run"), 20).empty());
  EXPECT_EQ(set_aside_beyond(at("run"), 3),
            (std::vector<fs::path>{at("run/checkpoints/step-20.aside"),
                                   at("run/checkpoints/step-4.aside")}));
  EXPECT_EQ(list_checkpoints(at("run")), (std::vector<fs::path>{at("run/checkpoints/step-3")}));
  check_checkpoint(at("run/checkpoints/step-20.aside"), CheckpointPart::kAll);
}

}  // namespace
}  // namespace sotto::train
