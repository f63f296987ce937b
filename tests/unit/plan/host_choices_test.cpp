#include "sotto/plan/host_choices.h"

#include <gtest/gtest.h>

#include "sotto/plan/usual_data.h"
#include "support/thrown.h"

namespace sotto::plan {
namespace {

using test::contains;

class HostChoicesTest : public ::testing::Test {
 protected:
  HostChoicesTest() {
    request_.config.model = models::ModelOptions::of_preset("wav2vec2-base");
    request_.shape = usual_shape(request_.config);
    request_.target = {.processor = device::Processor::kCuda, .capability = 86, .num_sms = 46};
    candidate_.config = request_.config;
  }

  HostChoices choose(double hours) {
    return choose_on_host(candidate_, request_, usual_data(request_.config), 3600.0 * hours, host_);
  }
  static const Reason& reason_of(const HostChoices& choices, const std::string& key) {
    for (const Reason& reason : choices.reasons)
      if (reason.key == key) return reason;
    ADD_FAILURE() << "no reason for " << key;
    return choices.reasons.front();
  }

  PlanRequest request_;
  Candidate candidate_;
  device::HostInfo host_{
      .num_cores = 6, .total_bytes = int64_t{64} << 30, .free_bytes = int64_t{60} << 30};
};

TEST_F(HostChoicesTest, LeaveACoreForTheStep) {
  choose(1.0);
  EXPECT_EQ(candidate_.config.data.loader_threads, 5);
  host_.num_cores = 64;
  choose(1.0);
  EXPECT_EQ(candidate_.config.data.loader_threads, 8);
  host_.num_cores = 1;
  choose(1.0);
  EXPECT_EQ(candidate_.config.data.loader_threads, 1);
  request_.target = {};
  host_.num_cores = 6;
  choose(1.0);
  EXPECT_EQ(candidate_.config.data.loader_threads, 1);
}

// An hour of decoded audio takes 230 MB.
TEST_F(HostChoicesTest, CacheDecodedAudioIfThereIsRoom) {
  EXPECT_EQ(choose(60.0).memory.audio_cache, 60LL * 3600 * 16'000 * 4);
  EXPECT_EQ(candidate_.config.data.cache, data::CacheKind::kMemory);
  EXPECT_PRED2(contains, reason_of(choose(60.0), "data.cache").why, "which fits into RAM");
  const HostChoices streamed = choose(100.0);
  EXPECT_EQ(candidate_.config.data.cache, data::CacheKind::kNone);
  EXPECT_EQ(streamed.memory.audio_cache, 0);
  EXPECT_PRED2(contains, reason_of(streamed, "data.cache").why,
               "more than a quarter of the free RAM");
  candidate_.config.epochs = 1;
  choose(1.0);
  EXPECT_EQ(candidate_.config.data.cache, data::CacheKind::kNone);
}

// On a CPU, the budget is part of the same memory.
TEST_F(HostChoicesTest, CountTheBudgetOnACpu) {
  request_.target = {};
  request_.budget.bytes = int64_t{59} << 30;
  choose(60.0);
  EXPECT_EQ(candidate_.config.data.cache, data::CacheKind::kNone);
}

TEST_F(HostChoicesTest, LimitTheTimeSpentOnCheckpoints) {
  choose(1.0);
  EXPECT_EQ(candidate_.config.checkpoint_seconds, 600.0);
  candidate_.fit.worst.at_peak[static_cast<size_t>(device::Category::kOptimizer)] = 10'000'000'000;
  choose(1.0);
  EXPECT_EQ(candidate_.config.checkpoint_seconds, 2'520.0);  // 50 times 50 s, in whole minutes
}

TEST_F(HostChoicesTest, LeaveFixedSettingsAlone) {
  request_.open = {.loader_threads = false, .cache = false, .checkpoint_seconds = false};
  candidate_.config.data.loader_threads = 3;
  candidate_.config.checkpoint_seconds = 5.0;
  const HostChoices choices = choose(1.0);
  EXPECT_EQ(candidate_.config.data.loader_threads, 3);
  EXPECT_EQ(candidate_.config.checkpoint_seconds, 5.0);
  EXPECT_EQ(candidate_.config.data.cache, data::CacheKind::kNone);
  ASSERT_EQ(choices.reasons.size(), 1);
  EXPECT_FALSE(choices.reasons.front().is_setting);
}

}  // namespace
}  // namespace sotto::plan
