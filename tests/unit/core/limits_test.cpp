#include "sotto/core/limits.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;

TEST(MicroBatchLimits, AreUnlimitedByDefault) {
  EXPECT_EQ(MicroBatchLimits{}.max_frames, MicroBatchLimits::kUnlimited);
  EXPECT_NE(MicroBatchLimits{}, MicroBatchLimits{.max_labels = 3});
}

TEST(MicroBatchLimits, RoundTripThroughJson) {
  for (const MicroBatchLimits& limits :
       {MicroBatchLimits{}, MicroBatchLimits{.max_frames = 12'000, .max_utterances = 8},
        MicroBatchLimits{.max_frames = 1, .max_labels = 1, .max_nodes = 1, .max_utterances = 1},
        MicroBatchLimits{.max_utterances = 4, .is_adaptive = false}}) {
    EXPECT_EQ(limits_from_json(to_json(limits)), limits);
    EXPECT_EQ(limits_from_json(nlohmann::json::parse(to_json(limits).dump())), limits);
  }
  EXPECT_EQ(to_json(MicroBatchLimits{.max_frames = 7}).dump(),
            R"({"adaptive":true,"max_frames":7,"max_labels":null,"max_utterances":null})");
  EXPECT_TRUE(to_json(MicroBatchLimits{.max_nodes = 7}).contains("max_nodes"));
  EXPECT_EQ(limits_from_json(nlohmann::json::object()), MicroBatchLimits{});
}

TEST(MicroBatchLimits, AreRaisedOnlyToTheLargestItem) {
  const LargestItem item{.frames = 100, .labels = 20, .nodes = 2'100};
  const MicroBatchLimits low{
      .max_frames = 60, .max_labels = 10, .max_nodes = 600, .max_utterances = 3};
  EXPECT_EQ(raised_to(low, item),
            (MicroBatchLimits{
                .max_frames = 100, .max_labels = 20, .max_nodes = 2'100, .max_utterances = 3}));
  const MicroBatchLimits high{.max_frames = 160, .max_labels = 30, .max_nodes = 3'000};
  EXPECT_EQ(raised_to(high, item), high);
}

TEST(MicroBatchLimits, DescriptionNamesActiveLimits) {
  EXPECT_EQ(describe(MicroBatchLimits{}), "the whole step");
  EXPECT_EQ(describe({.max_frames = 9}), "9 frames");
  EXPECT_EQ(describe({.max_frames = 9, .max_utterances = 2}), "9 frames and 2 utterances");
  EXPECT_EQ(describe({.max_frames = 9, .max_utterances = 2, .is_adaptive = false}), "2 utterances");
}

// As in checkpoints that were trained without any labels.
TEST(MicroBatchLimits, ZeroLabelsBecomeALimitOfOne) {
  EXPECT_EQ(limits_from_json(nlohmann::json::parse(R"({"max_frames": 9, "max_labels": 0})")),
            (MicroBatchLimits{.max_frames = 9, .max_labels = 1}));
}

TEST(MicroBatchLimits, RefuseInvalidJson) {
  const auto refusal = [](const char* text) {
    return message_of<DataError>([&] { limits_from_json(nlohmann::json::parse(text)); });
  };
  EXPECT_PRED2(contains, refusal("[1]"), "[1]. Expected an object");
  EXPECT_PRED2(contains, refusal(R"({"max_frame": 3})"), "unknown key 'max_frame'");
  EXPECT_PRED2(contains, refusal(R"({"max_frames": 0})"), "max_frames is 0. Expected a whole");
  EXPECT_PRED2(contains, refusal(R"({"adaptive": 1})"), "adaptive is 1. Expected true or false");
  EXPECT_PRED2(contains, refusal(R"({"max_labels": 1.5})"), "max_labels is 1.5");
}

}  // namespace
}  // namespace sotto
