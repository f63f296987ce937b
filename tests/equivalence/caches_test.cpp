// What is given back in the middle of a run does not change it: the same losses and weights, to the
// bit, and each utterance decoded to the same samples.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/train/run/trainer.h"
#include "support/temp_folder.h"
#include "support/training.h"
#include "support/wav_bytes.h"

namespace sotto::train {
namespace {

struct Outcome {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
  int64_t num_releases = 0;
  int64_t audio_bytes = 0;
  std::vector<std::string> warnings;
};

class CachesTest : public ::testing::Test {
 protected:
  CachesTest() {
    std::string lines;
    for (int64_t u = 0; u < 16; ++u) {
      const int64_t num_samples = 8'000 + 500 * u;
      const std::string name = "u" + std::to_string(u) + ".wav";
      folder_.write(name, test::wav_bytes(num_samples, 0.02 + 0.01 * static_cast<double>(u)));
      lines += nlohmann::json({{"audio_filepath", name},
                               {"duration", static_cast<double>(num_samples) / 16'000.0},
                               {"text", u % 2 == 0 ? "ab" : "gab"}})
                   .dump() +
               "\n";
    }
    folder_.write("speech.jsonl", lines);
  }

  RunConfig config() const {
    RunConfig config = test::tiny_config();
    config.data.train = folder_.path() / "speech.jsonl";
    config.data.cache = data::CacheKind::kMemory;
    config.data.cache_size = MemorySize::parse("64MiB");
    config.epochs = 4;
    return config;
  }

  Outcome train(const std::string& name, const RunConfig& config,
                const device::MemoryReading& read_device = {}) {
    Outcome run;
    RunEvents events;
    events.stepped = [&](const StepReport& report) { run.losses.push_back(report.result.loss); };
    events.released = [&](int64_t, const ReleasedCaches& released) {
      ++run.num_releases;
      run.audio_bytes += released.audio_bytes;
    };
    events.warned = [&](const std::string& text) { run.warnings.push_back(text); };
    Trainer trainer({.config = config,
                     .folder = folder_.path() / name,
                     .budget_bytes = int64_t{256} << 20,
                     .read_device = read_device},
                    events);
    trainer.run();
    run.weights = test::weights_of(trainer.learner());
    return run;
  }

  test::TempFolder folder_;
};

TEST_F(CachesTest, ReleasingGivesTheSameBits) {
  const Outcome kept = train("kept", config());
  EXPECT_EQ(kept.losses.size(), 8u);
  EXPECT_EQ(kept.num_releases, 0);
  for (const int64_t every : {1, 2, 5}) {
    RunConfig releasing = config();
    releasing.release_caches_every = every;
    const Outcome released = train("every" + std::to_string(every), releasing);
    EXPECT_EQ(released.num_releases, 8 / every);
    EXPECT_GT(released.audio_bytes, 0);
    EXPECT_EQ(released.losses, kept.losses) << every;
    EXPECT_TRUE(test::same_bits(released.weights, kept.weights)) << every;
  }
}

// A full device releases its caches once and reports it; the run is the same.
TEST_F(CachesTest, FullDeviceGivesTheSameBits) {
  const Outcome kept = train("kept", config());
  const Outcome full = train("full", config(), [] {
    return device::MemoryAvailable{.total_bytes = 1000, .free_bytes = 10};
  });
  EXPECT_EQ(full.num_releases, 1);
  ASSERT_EQ(full.warnings.size(), 1u);
  EXPECT_TRUE(full.warnings[0].starts_with("all processes together use 990 B")) << full.warnings[0];
  EXPECT_EQ(full.losses, kept.losses);
  EXPECT_TRUE(test::same_bits(full.weights, kept.weights));
  const std::string record = test::content_of(folder_.path() / "full" / "metrics.jsonl");
  EXPECT_NE(record.find("\"kind\":\"release\""), std::string::npos);
}

TEST_F(CachesTest, IntervalBeyondTheRunIsRefused) {
  RunConfig never = config();
  never.release_caches_every = 9;
  EXPECT_THROW(train("never", never), ConfigError);
}

}  // namespace
}  // namespace sotto::train
