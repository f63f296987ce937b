#include "cli/views/progress.h"

#include <gtest/gtest.h>

#include "cli/views/train_view.h"
#include "sotto/report/table.h"

namespace sotto::cli {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(ProgressLine, HasABarIfThereIsRoom) {
  const ProgressState state{.what = "training", .done = 30, .total = 120, .about = "loss 1.2"};
  EXPECT_EQ(progress_line(state, 120), "training [#####...............] 30/120 loss 1.2");
  EXPECT_EQ(progress_line(state, 36), "training [##.......] 30/120 loss 1.2");
  EXPECT_EQ(progress_line(state, 28), "training 30/120 loss 1.2") << "no bar of three";
  EXPECT_EQ(progress_line(state, 20), "training 30/120 los…");
}

TEST(ProgressLine, FitsEveryWidth) {
  const std::string about =
      describe(TrainProgress{.loss = 123.4567,
                             .rate = 1e-4,
                             .amount = {.audio_seconds = 0.0, .num_tokens = 123'456'789},
                             .seconds = 10.0,
                             .used_bytes = 512 * kMiB,
                             .budget_bytes = 80 * 1024 * kMiB,
                             .seconds_left = 1e6});
  for (int64_t width = 1; width <= 200; ++width) {
    const std::string line = progress_line(
        {.what = "training", .done = 99'999, .total = 1'000'000, .about = about}, width);
    EXPECT_LE(report::display_width(line), width);
  }
}

TEST(ProgressLine, IsFullAtTheEndAndEmptyWithoutTotal) {
  EXPECT_EQ(progress_line({.what = "x", .done = 7, .total = 7, .about = ""}, 80),
            "x [####################] 7/7 ");
  EXPECT_EQ(progress_line({.what = "x", .done = 0, .total = 0, .about = ""}, 80),
            "x [....................] 0/0 ");
}

TEST(TrainProgress, ShowsWhatTheRunIsDoing) {
  TrainProgress progress{.loss = 0.41234,
                         .rate = 1.9e-3,
                         .amount = {.audio_seconds = 6120.0},
                         .seconds = 10.0,
                         .used_bytes = 212 * kMiB,
                         .budget_bytes = 300 * kMiB,
                         .seconds_left = 724.0};
  EXPECT_EQ(describe(progress), "loss 0.4123 rate 1.9e-03 612x real time 212/300 MiB 12 min left");
  progress.amount = {.audio_seconds = 0.0, .num_tokens = 52'000};
  progress.budget_bytes = 8 * 1024 * kMiB;
  progress.seconds_left = 45.2;
  EXPECT_EQ(describe(progress),
            "loss 0.4123 rate 1.9e-03 5200 tokens/s 212 MiB/8.00 GiB 45 s left");
  progress.seconds_left = 2.5 * 3600;
  EXPECT_TRUE(describe(progress).ends_with(" 2.5 h left"));
  progress.seconds_left = 3.5 * 86'400;
  EXPECT_TRUE(describe(progress).ends_with(" 3.5 days left"));
}

}  // namespace
}  // namespace sotto::cli
