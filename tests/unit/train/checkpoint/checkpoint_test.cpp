#include "sotto/train/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/train/recognition/recogniser.h"
#include "sotto/train/run/resume.h"
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
    const auto index = static_cast<std::streamoff>(fs::file_size(path) / 2);
    file.seekg(index);
    const int byte = file.get();
    file.seekp(index);
    file.put(static_cast<char>(byte ^ 0x10));
  }

  test::TinyModel tiny_ = test::trained_wav2vec2();
  std::unique_ptr<Learner> learner_ = test::make_learner(tiny_);
  test::TempFolder temp_;
};

TEST_F(Checkpoints, AnyDamagedFileIsNamed) {
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

TEST_F(Checkpoints, RecognitionNeedsIntactWeightsButNoOptimizer) {
  const fs::path folder = at("run/checkpoints/step-3");
  damage(optimizer_path(folder));
  EXPECT_NO_THROW(Recogniser(at("run"), int64_t{64} << 20));
  EXPECT_THROW(check_checkpoint(folder, CheckpointPart::kAll), DataError);
  damage(weights_path(folder));
  EXPECT_PRED2(contains, message_of<DataError>([&] { Recogniser(at("run"), int64_t{64} << 20); }),
               "step-3: model.safetensors is damaged");
}

TEST_F(Checkpoints, StoreSkippedSteps) {
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

// The head of the network has more outputs than the vocabulary has entries.
TEST_F(Checkpoints, KeepHeadLargerThanVocabulary) {
  const fs::path folder = test::write_checkpoint(at("large"), tiny_, *learner_, "a");
  EXPECT_LT(test::tokenizer_of("a").size(), tiny_.shape.vocabulary);
  EXPECT_EQ(read_checkpoint(folder).tokenizer.size(), tiny_.shape.vocabulary);
}

TEST_F(Checkpoints, RunResolvesToBestOrLatest) {
  EXPECT_EQ(find_checkpoint(at("run")), at("run/checkpoints/step-3"));
  write("run/checkpoints/step-12");
  EXPECT_EQ(find_checkpoint(at("run")), at("run/checkpoints/step-12"));
  write("run/best");
  EXPECT_EQ(find_checkpoint(at("run")), at("run/best"));
  EXPECT_EQ(find_checkpoint(at("run/checkpoints/step-3")), at("run/checkpoints/step-3"));
  EXPECT_EQ(find_checkpoint(at("nowhere")), std::nullopt);
  EXPECT_EQ(find_checkpoint(temp_.write("a.nemo", "")), std::nullopt);
}

TEST_F(Checkpoints, LaterStepsAreSetAside) {
  for (const char* name : {"step-4", "step-20", "step-4.aside"})
    write(std::string("run/checkpoints/") + name);
  EXPECT_TRUE(set_aside_beyond(at("run"), 20).empty());
  EXPECT_EQ(set_aside_beyond(at("run"), 3),
            (std::vector<fs::path>{at("run/checkpoints/step-20.aside"),
                                   at("run/checkpoints/step-4.aside")}));
  EXPECT_EQ(list_checkpoints(at("run")), (std::vector<fs::path>{at("run/checkpoints/step-3")}));
  check_checkpoint(at("run/checkpoints/step-20.aside"), CheckpointPart::kAll);
}

// When a run resumes from another checkpoint of the same step, its own would be used next time.
TEST_F(Checkpoints, SameStepIsSetAsideUnlessInUse) {
  EXPECT_TRUE(set_aside_beyond(at("run"), 3, at("run/checkpoints/step-3/")).empty());
  EXPECT_EQ(set_aside_beyond(at("run"), 3, write("other/step-3")),
            (std::vector<fs::path>{at("run/checkpoints/step-3.aside")}));
}

TEST_F(Checkpoints, IntactSetAsideFoldersAreNotReplaced) {
  write("run/checkpoints/step-3.aside");
  damage(weights_path(at("run/checkpoints/step-3")));
  EXPECT_EQ(set_aside_beyond(at("run"), 0),
            (std::vector<fs::path>{at("run/checkpoints/step-3.aside-2")}));
  check_checkpoint(at("run/checkpoints/step-3.aside"), CheckpointPart::kAll);
  // Nor is the one in use, whatever it is.
  write("run/checkpoints/step-3");
  EXPECT_EQ(set_aside_beyond(at("run"), 3, at("run/checkpoints/step-3.aside")),
            (std::vector<fs::path>{at("run/checkpoints/step-3.aside-3")}));
}

TEST_F(Checkpoints, FallBackToSetAsideFolders) {
  write("run/checkpoints/step-12");
  damage(weights_path(write("run/checkpoints/step-20")));
  set_aside_beyond(at("run"), 0);
  EXPECT_EQ(list_set_aside(at("run")),
            (std::vector<fs::path>{at("run/checkpoints/step-3.aside"),
                                   at("run/checkpoints/step-12.aside"),
                                   at("run/checkpoints/step-20.aside")}));
  EXPECT_EQ(find_checkpoint(at("run")), at("run/checkpoints/step-12.aside"));
  const FolderLock lock(at("run"));
  std::vector<std::string> notes;
  const auto choose = [&](bool resumes) {
    return choose_checkpoint(lock, {.resumes = resumes, .resume_from = {}},
                             [&](const std::string& text) { notes.push_back(text); });
  };
  EXPECT_EQ(choose(true), at("run/checkpoints/step-12.aside"));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_PRED2(contains, notes[0], "step-20.aside cannot be used");
  EXPECT_PRED2(contains, notes[1],
               "continuing from " + at("run/checkpoints/step-12.aside").string());
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { choose(false); }), "--resume");
  write("run/checkpoints/step-2");
  EXPECT_EQ(choose(true), at("run/checkpoints/step-2"));
}

TEST_F(Checkpoints, NamedOnesAreChecked) {
  const FolderLock lock(at("elsewhere"));
  const fs::path named = at("run/checkpoints/step-3");
  EXPECT_EQ(choose_checkpoint(lock, {.resume_from = named}, {}), named);
  damage(optimizer_path(named));
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { choose_checkpoint(lock, {.resume_from = named}, {}); }),
               "optimizer.safetensors is damaged");
}

// Resuming from the checkpoint of another run would set this run's own checkpoints aside.
TEST_F(Checkpoints, OfAnotherRunAreNotResumedInExistingRun) {
  const fs::path named = write("other/checkpoints/step-9");
  const auto choose = [&](const fs::path& folder) {
    return choose_checkpoint(FolderLock(folder), {.resume_from = named}, {});
  };
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { choose(at("run")); }),
               "checkpoints of another run in " + at("run").string());
  EXPECT_EQ(choose(at("other")), named);
  EXPECT_EQ(choose(at("new")), named);
  // A link to the run's folder leads there too.
  fs::create_directory_symlink(at("other"), at("link"));
  EXPECT_EQ(choose(at("link")), named);
  write("kept/best");
  EXPECT_THROW(choose(at("kept")), ConfigError);
}

TEST_F(Checkpoints, FallBackToBest) {
  write("run/best");
  fs::remove_all(at("run/checkpoints"));
  const FolderLock lock(at("run"));
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { choose_checkpoint(lock, {}, {}); }),
               "--resume");
  EXPECT_EQ(choose_checkpoint(lock, {.resumes = true, .resume_from = {}}, {}), at("run/best"));
  // What was set aside is nearer to the end of the run.
  write("run/checkpoints/step-3.aside");
  EXPECT_EQ(choose_checkpoint(lock, {.resumes = true, .resume_from = {}}, {}),
            at("run/checkpoints/step-3.aside"));
}

TEST_F(Checkpoints, UnlistableFolderIsAnError) {
  fs::remove_all(at("run/checkpoints"));
  EXPECT_TRUE(list_checkpoints(at("run")).empty());
  std::ofstream(at("run/checkpoints")) << "no folder";
  EXPECT_PRED2(contains, message_of<DataError>([&] { list_checkpoints(at("run")); }),
               at("run/checkpoints").string());
}

// Evaluations without a finite result are counted too.
TEST_F(Checkpoints, KeepPlateauWithoutBest) {
  Checkpoint checkpoint = read_checkpoint(at("run/checkpoints/step-3"));
  checkpoint.state.plateau = {.num_worse = 3, .factor = 0.25};
  train::write_checkpoint(at("copy"), *learner_, checkpoint);
  const optim::Plateau plateau = read_checkpoint(at("copy")).state.plateau;
  EXPECT_EQ(plateau.num_worse, 3);
  EXPECT_EQ(plateau.factor, 0.25);
  EXPECT_FALSE(std::isfinite(plateau.best));
}

TEST_F(Checkpoints, ImpossibleNumbersAreRefused) {
  for (const char* key : {"epoch", "step", "vocabulary"}) {
    const fs::path path = write("copy") / "state.json";
    nlohmann::json json;
    std::ifstream(path) >> json;
    json[key] = -1;
    std::ofstream(path) << json;
    EXPECT_PRED2(contains, message_of<DataError>([&] { read_checkpoint(at("copy")); }),
                 std::string(key) + " is -1");
  }
}

TEST_F(Checkpoints, NamedOnesMustExist) {
  const FolderLock lock(at("elsewhere"));
  EXPECT_PRED2(contains, message_of<DataError>([&] {
                 choose_checkpoint(lock, {.resume_from = at("no")}, {});
               }),
               "no such folder");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] {
                 choose_checkpoint(lock, {.resume_from = at("run")}, {});
               }),
               "the folder of a run");
}

// The process was killed while it replaced a checkpoint with two renames.
TEST_F(Checkpoints, AreFoundAfterInterruptedReplacement) {
  fs::rename(at("run/checkpoints/step-3"), at("run/checkpoints/.step-3.replaced-999999999"));
  const FolderLock lock(at("run"));
  EXPECT_EQ(choose_checkpoint(lock, {.resumes = true, .resume_from = {}}, {}),
            at("run/checkpoints/step-3"));
}

}  // namespace
}  // namespace sotto::train
