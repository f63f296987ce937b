// Whatever ends a run between two updates, what was trained is saved; a failure inside an update is
// not.
#include <gtest/gtest.h>

#include <new>

#include "sotto/core/error.h"
#include "sotto/device/run_device.h"
#include "sotto/train/run/trainer.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::content_of;
using test::message_of;

class SavedAfterFailure : public ::testing::Test {
 protected:
  SavedAfterFailure() {
    config_.data.train = test::write_tiny_corpus(folder_.path(), "train", 48, 1);
    config_.data.dev = test::write_tiny_corpus(folder_.path(), "dev", 12, 2);
    config_.checkpoint_every = 2;
    config_.keep_checkpoints = 1;
    config_.epochs = 2;
  }

  // Runs to its end, or until something is thrown.
  void run(const std::string& name, RunEvents events = {},
           const std::optional<fs::path>& resume_from = {}) {
    Trainer trainer({.config = config_,
                     .folder = folder_.path() / name,
                     .budget_bytes = int64_t{64} << 20,
                     .device = device::open_device("cpu", {}, false),
                     .resume_from = resume_from},
                    std::move(events));
    trainer_ = &trainer;
    trainer.run();
  }
  fs::path step(const std::string& name, int64_t number) const {
    return checkpoint_path(folder_.path() / name, number);
  }
  // Throws after a step.
  RunEvents failing_at(int64_t number, const std::function<void()>& fail) {
    RunEvents events;
    events.stepped = [=](const StepReport& report) {
      if (report.step == number) fail();
    };
    return events;
  }

  test::TempFolder folder_;
  RunConfig config_ = test::tiny_config();
  Trainer* trainer_ = nullptr;
};

// Older checkpoints are kept regardless of keep_checkpoints.
TEST_F(SavedAfterFailure, FailedEvaluation) {
  run("whole");
  const std::string dev = content_of(folder_.path() / "dev.f16");
  const auto gone = failing_at(6, [&] { fs::remove(folder_.path() / "dev.f16"); });
  EXPECT_PRED2(contains, message_of<DataError>([&] { run("run", gone); }), "dev.f16");
  EXPECT_TRUE(fs::exists(step("run", 4)));
  EXPECT_TRUE(is_whole_checkpoint(step("run", 6)));
  EXPECT_EQ(list_checkpoints(folder_.path() / "run").size(), 2u);
  EXPECT_FALSE(fs::exists(folder_.path() / "run/best"));
  // It goes on with the evaluation that it owes.
  folder_.write("dev.f16", dev);
  std::vector<int64_t> evaluated;
  RunEvents events;
  events.evaluated = [&](int64_t at, const Evaluation&) { evaluated.push_back(at); };
  run("run", events, step("run", 6));
  EXPECT_EQ(evaluated, (std::vector<int64_t>{6, 12}));
  EXPECT_EQ(content_of(weights_path(step("run", 12))), content_of(weights_path(step("whole", 12))));
  EXPECT_EQ(list_checkpoints(folder_.path() / "run").size(), 1u);
}

TEST_F(SavedAfterFailure, UnreadableFile) {
  const auto cut = failing_at(3, [&] { fs::resize_file(folder_.path() / "train.f16", 16); });
  EXPECT_THROW(run("run", cut), DataError);
  // Steps that were decoded ahead are trained.
  const std::vector<fs::path> all = list_checkpoints(folder_.path() / "run");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_GE(read_checkpoint(all.back()).state.step, 3);
}

TEST_F(SavedAfterFailure, AnyException) {
  const auto memory = failing_at(3, [] { throw std::bad_alloc(); });
  EXPECT_THROW(run("memory", memory), std::bad_alloc);
  EXPECT_TRUE(is_whole_checkpoint(step("memory", 3)));
  EXPECT_TRUE(is_whole_checkpoint(step("memory", 2)));
  const auto fault = failing_at(
      5, [] { throw InternalError({.attempted = "anything", .found = "a fault of our own"}); });
  EXPECT_THROW(run("fault", fault), InternalError);
  EXPECT_TRUE(is_whole_checkpoint(step("fault", 5)));
}

TEST_F(SavedAfterFailure, ButNotAPartialUpdate) {
  const auto half = failing_at(3, [&] {
    trainer_->learner().is_whole = false;
    throw InternalError({.attempted = "updating", .found = "half of it"});
  });
  EXPECT_THROW(run("run", half), InternalError);
  EXPECT_FALSE(fs::exists(step("run", 3)));
  EXPECT_TRUE(is_whole_checkpoint(step("run", 2)));
}

// A program that catches the failure may call the trainer again.
TEST_F(SavedAfterFailure, TrainerRefusesToContinueAfterAPartialUpdate) {
  Trainer trainer({.config = config_,
                   .folder = folder_.path() / "run",
                   .budget_bytes = int64_t{64} << 20,
                   .device = device::open_device("cpu", {}, false)},
                  {});
  trainer.learner().is_whole = false;
  EXPECT_PRED2(contains, message_of<DataError>([&] { trainer.run(); }),
               "weights of a failed update");
  EXPECT_FALSE(fs::exists(folder_.path() / "run/checkpoints"));
}

TEST_F(SavedAfterFailure, NothingIfNothingWasTrained) {
  RunEvents events;
  events.audited = [](int64_t, const EpochAudit&) {
    throw DataError({.attempted = "beginning", .found = "an error"});
  };
  EXPECT_THROW(run("run", events), DataError);
  EXPECT_TRUE(list_checkpoints(folder_.path() / "run").empty());
}

// A step that throws during its update leaves the learner marked as incomplete.
TEST_F(SavedAfterFailure, UpdateThatThrowsIsPartial) {
  Learner learner(config_, test::kTinyShape, at::kCPU);
  const std::vector<data::Example> examples = test::tiny_examples(4, 1);
  run_step(learner, examples, {.step = 1, .total_steps = 10});
  EXPECT_TRUE(learner.is_whole);
  // Before the update: an utterance that is too long.
  EXPECT_THROW(run_step(learner, examples, {.step = 2, .limits = {.max_frames = 1}}), DataError);
  EXPECT_TRUE(learner.is_whole);
  EXPECT_ANY_THROW(run_step(learner, examples, {.step = 0, .total_steps = 10}));
  EXPECT_FALSE(learner.is_whole);
}

// Checked before any training.
TEST_F(SavedAfterFailure, EvaluationFilesAreCheckedAtStart) {
  fs::resize_file(folder_.path() / "dev.f16", fs::file_size(folder_.path() / "dev.f16") - 16);
  EXPECT_PRED2(contains, message_of<DataError>([&] { run("run"); }), "loading line 12 of ");
  fs::remove(folder_.path() / "dev.f16");
  EXPECT_PRED2(contains, message_of<DataError>([&] { run("run"); }), "loading line 1 of ");
  EXPECT_FALSE(fs::exists(folder_.path() / "run"));
  // Who leaves out what is broken wants no error.
  config_.data.utterances.broken = data::Policy::kSkip;
  EXPECT_NO_THROW(run("run"));
}

}  // namespace
}  // namespace sotto::train
