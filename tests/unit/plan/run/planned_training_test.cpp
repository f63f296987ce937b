#include "sotto/plan/run/planned_training.h"

#include <gtest/gtest.h>

#include <fstream>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/models/conformer/conformer.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::plan {
namespace {

using test::contains;

class PlannedTrainingTest : public ::testing::Test {
 protected:
  // Every setting is named, nothing is open. One utterance is so long that it decides the peak on
  // every processor.
  PlannedTrainingTest() {
    train::RunConfig config = test::tiny_config();
    config.data.train = test::write_tiny_corpus(folder_.path(), "train", 24, 1);
    std::ofstream(config.data.train, std::ios::app)
        << R"({"feature_filepath": "train.f16", "frame_offset": 0, "num_frames": 1000, )"
        << R"("feature_dim": 8, "duration": 10.0, "text": "abcd"})" << '\n';
    config.memory = MemorySize::parse("64MiB");
    config.epochs = 2;
    config.checkpoint_every = 1;
    folder_.write("tiny.yaml", format_yaml(write_options(config)));
    request_ = {.run = {.config = (folder_.path() / "tiny.yaml").string()},
                .folder = folder_.path() / "run"};
  }

  // Ends for want of memory: every attempt finds its arena full. Returns what was advised.
  std::string advice_of_failing_run() {
    std::string advice;
    std::unique_ptr<PlannedTraining> training;
    TrainingEvents events{.advised = [&](const std::string& text) { advice = text; }};
    events.run.restarted = [&](const train::Restart&) {
      training->trainer().arena().inject_failure(1);
    };
    training = std::make_unique<PlannedTraining>(request_, events);
    training->trainer().arena().inject_failure(1);
    EXPECT_PRED2(contains, test::message_of<OutOfMemory>([&] { training->run(); }),
                 "out of memory after");
    return advice;
  }

  test::TempFolder folder_;
  TrainingRequest request_;
};

TEST_F(PlannedTrainingTest, AdvisesWhenARunIsOutOfMemory) {
  const std::string advice = advice_of_failing_run();
  EXPECT_PRED2(contains, advice,
               "What to try, cheapest first; each in addition to those before it:\n");
  EXPECT_PRED2(contains, advice, "  unchanged: needs ");
  EXPECT_PRED2(contains, advice, "  --set tier=block (slower, the same result): needs ");
  EXPECT_PRED2(contains, advice, "  --set data.max_seconds=");
}

// A run in progress keeps its data and its numerics.
TEST_F(PlannedTrainingTest, AdvisesAResumedRunWithoutChangingItsResult) {
  request_.run.max_steps = 1;
  PlannedTraining(request_, {}).run();
  request_.run = {.config = request_.run.config};
  request_.resumes = true;
  const std::string advice = advice_of_failing_run();
  EXPECT_PRED2(contains, advice, "  --set tier=block (slower, the same result): needs ");
  EXPECT_FALSE(contains(advice, "numerics"));
  EXPECT_FALSE(contains(advice, "data."));
}

TEST_F(PlannedTrainingTest, DecidesNothingThatIsGiven) {
  bool has_decided = false;
  PlannedTraining(request_, {.decided = [&](const auto&) { has_decided = true; }}).run();
  EXPECT_FALSE(has_decided);
  EXPECT_FALSE(std::filesystem::exists(request_.folder / "plan.yaml"));
}

TEST_F(PlannedTrainingTest, SaysThatTheSplitMattersIfNothingIsOpen) {
  auto config = read_options<train::RunConfig>(
      parse_yaml(read_text_file(folder_.path() / "tiny.yaml"), "tiny.yaml"));
  config.model = models::ModelOptions::of_preset("conformer-s");
  auto& model = config.model.as<models::ConformerOptions>();
  model.layers = 1;
  model.width = 16;
  model.hidden = 32;
  model.convolution_norm = nn::InnerNormKind::kBatch;
  folder_.write("tiny.yaml", format_yaml(write_options(config)));
  std::vector<std::string> keys;
  const PlannedTraining training(request_, {.decided = [&](const std::vector<Reason>& reasons) {
                                   for (const Reason& reason : reasons) keys.push_back(reason.key);
                                 }});
  EXPECT_EQ(keys, std::vector<std::string>{"model.convolution_norm"});
}

TEST_F(PlannedTrainingTest, ReportsAndStoresItsDecisions) {
  request_.run.settings = {"tier=auto"};
  std::vector<std::string> keys;
  PlannedTraining training(request_, {.decided = [&](const std::vector<Reason>& reasons) {
                             for (const Reason& reason : reasons) keys.push_back(reason.key);
                           }});
  EXPECT_EQ(keys.front(), "tier");
  // Written with the run's first file.
  EXPECT_FALSE(std::filesystem::exists(request_.folder / "plan.yaml"));
  training.run();
  EXPECT_TRUE(std::filesystem::exists(request_.folder / "plan.yaml"));
}

}  // namespace
}  // namespace sotto::plan
