#include "sotto/core/files/json_cache.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.h"

namespace sotto {
namespace {

TEST(JsonCache, ReturnsWhatWasStoredUnderAKey) {
  const test::TempFolder folder;
  const JsonCache cache(folder.path() / "below" / "constants.json");
  EXPECT_EQ(cache.find("card"), std::nullopt);
  cache.store("card", 700);
  cache.store("other card", 800);
  cache.store("card", 701);
  EXPECT_EQ(cache.find("card"), 701);
  EXPECT_EQ(cache.find("other card"), 800);
  EXPECT_EQ(cache.find("a third"), std::nullopt);
}

TEST(JsonCache, BrokenFileIsIgnored) {
  const test::TempFolder folder;
  const std::filesystem::path file = folder.path() / "constants.json";
  std::ofstream(file) << "{\"card\": \"many\", \"cut";
  const JsonCache cache(file);
  EXPECT_EQ(cache.find("card"), std::nullopt);
  cache.store("card", 5);
  EXPECT_EQ(cache.find("card"), 5);
  JsonCache("/proc/no/such/folder/constants.json").store("card", 5);
}

TEST(JsonCache, NonObjectFileIsIgnored) {
  const test::TempFolder folder;
  const std::filesystem::path file = folder.path() / "list.json";
  std::ofstream(file) << "[1, 2]";
  EXPECT_EQ(JsonCache(file).find("card"), std::nullopt);
  JsonCache(file).store("card", 5);
  EXPECT_EQ(JsonCache(file).find("card"), 5);
}

}  // namespace
}  // namespace sotto
