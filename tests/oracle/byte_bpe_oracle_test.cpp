// Byte-level BPE and Whisper's normalisers against transformers, by way of
// tests/fixtures/byte_bpe.json, which make_byte_bpe.py makes.
#include <gtest/gtest.h>

#include "sotto/data/text/byte_bpe.h"
#include "sotto/data/text/unicode.h"
#include "sotto/decode/text_normalizer.h"
#include "support/fixture.h"
#include "support/temp_folder.h"

namespace sotto::test {
namespace {

using decode::NormalizerKind;
using decode::TextNormalizer;
using nlohmann::json;

data::ByteBpe model_of(const json& fixture) {
  const TempFolder folder;
  std::string merges = "#version: 0.2\n";
  for (const json& merge : fixture.at("merges")) merges += merge.get<std::string>() + "\n";
  folder.write("merges.txt", merges);
  return data::ByteBpe::read(folder.write("vocab.json", fixture.at("vocabulary").dump()));
}

TEST(ByteBpeOracle, LabelsAndTextsMatchTransformers) {
  if (!data::Unicode::is_available()) GTEST_SKIP() << "this build has no utf8proc";
  const json fixture = read_fixture("byte_bpe");
  const data::ByteBpe model = model_of(fixture);
  ASSERT_GE(fixture.at("cases").size(), 240u);
  for (const json& one : fixture.at("cases")) {
    const auto text = one.at("text").get<std::string>();
    std::vector<std::string> unknown;
    const std::vector<int32_t> labels = model.encode(text, unknown);
    EXPECT_EQ(labels, one.at("labels").get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(model.decode(labels), one.at("decoded").get<std::string>());
    EXPECT_EQ(model.decode(labels), text);
  }
}

TEST(ByteBpeOracle, PartsOfCharactersMatchTransformers) {
  if (!data::Unicode::is_available()) GTEST_SKIP() << "this build has no utf8proc";
  const json fixture = read_fixture("byte_bpe");
  const data::ByteBpe model = model_of(fixture);
  ASSERT_GE(fixture.at("partial").size(), 100u);
  for (const json& one : fixture.at("partial")) {
    EXPECT_EQ(model.decode(one.at("labels").get<std::vector<int32_t>>()),
              one.at("decoded").get<std::string>());
  }
}

TEST(NormalizerOracle, TextsMatchTransformers) {
  if (!data::Unicode::is_available()) GTEST_SKIP() << "this build has no utf8proc";
  const json fixture = read_fixture("byte_bpe");
  const std::map<std::string, TextNormalizer> normalizers = {
      {"basic", TextNormalizer({.kind = NormalizerKind::kBasic})},
      {"basic_diacritics",
       TextNormalizer({.kind = NormalizerKind::kBasic, .removes_diacritics = true})},
      {"basic_letters", TextNormalizer({.kind = NormalizerKind::kBasic, .splits_letters = true})},
      {"english", TextNormalizer({.kind = NormalizerKind::kEnglish,
                                  .spellings = decode::parse_spellings(
                                      fixture.at("spellings").dump(), "the fixture")})}};
  ASSERT_GE(fixture.at("normalised").size(), 360u);
  for (const json& one : fixture.at("normalised")) {
    const auto text = one.at("text").get<std::string>();
    for (const auto& [name, normalizer] : normalizers)
      EXPECT_EQ(normalizer.apply(text), one.at(name).get<std::string>()) << name << ": " << text;
  }
}

}  // namespace
}  // namespace sotto::test
