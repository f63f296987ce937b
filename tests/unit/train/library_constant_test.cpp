#include "sotto/train/library_constant.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.h"

namespace sotto::train {
namespace {

TEST(ConstantCache, GivesBackWhatWasStoredUnderAKey) {
  const test::TempFolder folder;
  const ConstantCache cache(folder.path() / "below" / "constants.json");
  EXPECT_EQ(cache.find("card"), std::nullopt);
  cache.store("card", 700);
  cache.store("other card", 800);
  cache.store("card", 701);
  EXPECT_EQ(cache.find("card"), 701);
  EXPECT_EQ(cache.find("other card"), 800);
  EXPECT_EQ(cache.find("a third"), std::nullopt);
}

TEST(ConstantCache, ABrokenFileIsAsIfItWereNotThere) {
  const test::TempFolder folder;
  const std::filesystem::path file = folder.path() / "constants.json";
  std::ofstream(file) << "{\"card\": \"many\", \"cut";
  const ConstantCache cache(file);
  EXPECT_EQ(cache.find("card"), std::nullopt);
  cache.store("card", 5);
  EXPECT_EQ(cache.find("card"), 5);
  ConstantCache("/proc/no/such/folder/constants.json").store("card", 5);
}

TEST(DivideBudget, OnTheCpuTheBudgetIsTheArena) {
  const BudgetParts parts = divide_budget({}, {}, {}, 1000);
  EXPECT_EQ(parts.arena_bytes, 1000);
  EXPECT_EQ(parts.constant_bytes, 0);
}

}  // namespace
}  // namespace sotto::train
