#include "sotto/core/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace sotto {
namespace {

const std::vector<std::string> kCommands = {"profile", "plan", "prove", "train", "transcribe"};

TEST(Nearest, FindsTheIntendedWord) {
  EXPECT_EQ(nearest("profil", kCommands), "profile");
  EXPECT_EQ(nearest("porfile", kCommands), "profile");
  EXPECT_EQ(nearest("plan", kCommands), "plan");
  EXPECT_EQ(nearest("plna", kCommands), "plan");
  EXPECT_EQ(nearest("tarin", kCommands), "train");
  EXPECT_EQ(nearest("trancribe", kCommands), "transcribe");
}

TEST(Nearest, ReturnsNothingForDissimilarWord) {
  EXPECT_EQ(nearest("xyzzy", kCommands), std::nullopt);
  EXPECT_EQ(nearest("", kCommands), std::nullopt);
  EXPECT_EQ(nearest("plan", {}), std::nullopt);
}

// A swap is one edit, and the first of two equal candidates wins.
TEST(Nearest, CountsASwapOnce) {
  const std::vector<std::string> known = {"abxy", "ba"};
  EXPECT_EQ(nearest("ab", known), "ba");
  EXPECT_EQ(nearest("ax", std::vector<std::string>{"ay", "az"}), "ay");
}

}  // namespace
}  // namespace sotto
