#include "sotto/core/files/json_object.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;

nlohmann::json parse(const std::string& text) {
  return parse_json_object(text, {.path = "a.json", .part = "its head", .expected = "a letter"});
}

std::string object_refusal(const std::string& text) {
  return message_of<DataError>([&] { parse(text); });
}

TEST(JsonObject, AgreesWithTheParser) {
  EXPECT_EQ(parse(R"({"a":[1,{"a":2}],"b":{"a":null}})"),
            nlohmann::json::parse(R"({"a":[1,{"a":2}],"b":{"a":null}})"));
}

TEST(JsonObject, OtherTextIsRefused) {
  for (const std::string text : {"", "[]", "1", "{", "{} {}", R"({"a":1e999})", "{\"a\":\"\xFF\"}"})
    EXPECT_PRED2(contains, object_refusal(text),
                 "reading a.json: its head is not a JSON object. Expected a letter.");
}

TEST(JsonObject, DuplicateNamesAreRefused) {
  EXPECT_PRED2(contains, object_refusal(R"({"a":1,"b":2,"a":3})"),
               "the name 'a' occurs twice in its head");
  EXPECT_PRED2(contains, object_refusal(R"({"c":[{"b":1,"b":1}]})"), "the name 'b' occurs twice");
}

// Four times as many tensors take about four times as long, not sixteen times. The fastest of a few
// runs counts, because others use the machine too.
TEST(JsonObject, IsReadInLinearTime) {
  const auto seconds_for = [](int64_t num_tensors) {
    std::string text = "{\"__metadata__\":{}";
    for (int64_t i = 0; i < num_tensors; ++i)
      text += fmt::format(R"(,"layer.{}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", i);
    text += '}';
    double fastest = 1e9;
    for (int run = 0; run < 3; ++run) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(parse(text).size(), static_cast<size_t>(num_tensors) + 1);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      fastest = std::min(fastest, taken.count());
    }
    return fastest;
  };
  EXPECT_LT(seconds_for(20'000), 10.0 * seconds_for(5'000));
}

TEST(JsonObject, NestingIsBounded) {
  const auto nested = [](size_t depth) {
    return R"({"a":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_TRUE(parse(nested(32)).is_object());
  EXPECT_PRED2(contains, object_refusal(nested(33)), "its head is nested more than 32 levels deep");
  EXPECT_PRED2(contains, object_refusal(nested(3'000'000)), "nested more than 32 levels deep");
}

TEST(JsonObject, LongValuesAreAbbreviated) {
  EXPECT_EQ(shown({1, 2}), "[1,2]");
  EXPECT_EQ(shown(std::string(200, 'x')), "\"" + std::string(79, 'x') + "...");
}

}  // namespace
}  // namespace sotto
