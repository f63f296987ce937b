// A run that ends for want of memory says what would help.
#include "cli/commands/advice.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::cli {
namespace {

using test::contains;

TEST(Advice, IsGivenWhereARunEndsForWantOfMemory) {
  const test::TempFolder folder;
  train::RunConfig config = test::tiny_config();
  config.data.train = test::write_tiny_corpus(folder.path(), "train", 8, 1);
  config.memory = MemorySize::parse("64MiB");
  const OpenedDevice opened(config.memory);

  // Every attempt finds its arena full.
  train::Trainer* running = nullptr;
  train::RunEvents events;
  events.restarted = [&](const train::Restart&) { running->arena().inject_failure(1); };
  train::Trainer trainer = make_trainer({.config = config,
                                         .folder = folder.path() / "run",
                                         .budget_bytes = opened.budget_bytes,
                                         .device = opened.device},
                                        events, opened);
  running = &trainer;
  trainer.arena().inject_failure(1);

  ::testing::internal::CaptureStderr();
  const std::string message =
      test::message_of<OutOfMemory>([&] { run_or_advise(trainer, opened); });
  const std::string advice = ::testing::internal::GetCapturedStderr();
  EXPECT_PRED2(contains, message, "no memory after");
  EXPECT_PRED2(contains, advice, "What to try, from what costs least; each with all before it:\n");
  EXPECT_PRED2(contains, advice, "  --set tier=block (slower, the same result): needs ");
}

}  // namespace
}  // namespace sotto::cli
