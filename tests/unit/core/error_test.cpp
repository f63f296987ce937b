#include "sotto/core/error.h"

#include <gtest/gtest.h>

namespace sotto {
namespace {

TEST(Error, MessageHasFourParts) {
  const ConfigError error({.attempted = "reading a.yaml",
                           .found = "unknown key 'lyers'",
                           .expected = "one of layers, width",
                           .hint = "Did you mean 'layers'?"});
  EXPECT_STREQ(
      error.what(),
      "reading a.yaml: unknown key 'lyers'. Expected one of layers, width. Did you mean 'layers'?");
}

TEST(Error, EmptyPartsAreOmitted) {
  EXPECT_STREQ(DataError({.attempted = "opening x", .found = "no such file"}).what(),
               "opening x: no such file.");
}

TEST(Error, ZeroByteDoesNotEndTheMessage) {
  EXPECT_STREQ(DataError({.attempted = "opening x", .found = std::string("'a\0b'", 5)}).what(),
               "opening x: 'a\\0b'.");
}

TEST(Error, AssertionNamesConditionLocationAndMessage) {
  try {
    SOTTO_ASSERT(1 + 1 == 3, "sum is {}", 2);
    FAIL() << "nothing was thrown";
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("1 + 1 == 3"), std::string::npos) << text;
    EXPECT_NE(text.find("error_test.cpp:"), std::string::npos) << text;
    EXPECT_NE(text.find("sum is 2"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace sotto
