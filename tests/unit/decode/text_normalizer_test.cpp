// Whisper's normalisers, by examples. byte_bpe_oracle_test.cpp compares with transformers.
#include "sotto/decode/text_normalizer.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/decode/decoding.h"
#include "support/byte_vocabulary.h"
#include "support/thrown.h"

namespace sotto::decode {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

std::string english(const std::string& text) {
  return TextNormalizer({.kind = NormalizerKind::kEnglish, .spellings = {{U"colour", U"color"}}})
      .apply(text);
}

TEST(TextNormalizer, BasicKeepsLettersAndDigits) {
  const TextNormalizer basic({.kind = NormalizerKind::kBasic});
  EXPECT_EQ(basic.apply("Hello,  World! (laughs) [noise] <unk> It's 5%."), "hello world it s 5 ");
  EXPECT_EQ(basic.apply("ŻÓŁĆ e\u0301tude \uFB01n"), "żółć étude fin");
  EXPECT_EQ(basic.apply("a < b (c"), "a b c");
  EXPECT_EQ(basic.apply(""), "");
}

TEST(TextNormalizer, BasicRemovesDiacriticsAndSplitsLettersOnRequest) {
  EXPECT_EQ(TextNormalizer({.kind = NormalizerKind::kBasic, .removes_diacritics = true})
                .apply("Żółć Ærø Straße"),
            "zolc aero strasse");
  EXPECT_EQ(
      TextNormalizer({.kind = NormalizerKind::kBasic, .splits_letters = true}).apply("人人 ab"),
      "人 人 a b");
}

TEST(TextNormalizer, NoneChangesNothing) {
  EXPECT_EQ(TextNormalizer({.kind = NormalizerKind::kNone}).apply("A, b!"), "A, b!");
}

TEST(TextNormalizer, EnglishWritesContractionsAndTitlesOut) {
  EXPECT_EQ(english("Mr. O'Neill won't come, he's gone; we'd like colour"),
            "mister 0 neill will not come he has gone we would like color");
  EXPECT_EQ(english("Hmm, I'm uh gonna let's go [inaudible] (coughs)"), "i am going to let us go");
}

TEST(TextNormalizer, EnglishWritesNumbersInDigits) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"twenty-one", "21"},
      {"one oh one", "101"},
      {"nineteen ninety nine", "1999"},
      {"two hundred and tenth", "210th"},
      {"three million two hundred thousand", "3200000"},
      {"two and a half million", "2500000"},
      {"one hundred and five point six", "105.6"},
      {"minus forty two", "-42"},
      {"twenty dollars and five cents", "$20.05"},
      {"seven cents", "¢7"},
      {"fifty percent", "50%"},
      {"ten per cent", "10%"},
      {"double oh seven", "007"},
      {"triple five", "555"},
      {"the sixties", "the 60s"},
      {"one thing, ones", "one thing ones"},
      {"1,234,567 dollars", "$1234567"},
      {"nine hundred decillion", "900000000000000000000000000000000000"},
      {"the first of the 3 rd", "the 1st of the 3rd"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(english(text), expected) << text;
}

TEST(Spellings, AreReadFromAFile) {
  EXPECT_EQ(parse_spellings(R"({"colour": "color"})", "a.json"),
            (Spellings{{U"colour", U"color"}}));
  EXPECT_PRED2(contains,
               message_of<DataError>([] { parse_spellings(R"({"colour": 1})", "a.json"); }),
               "\"colour\": 1");
  EXPECT_PRED2(contains, message_of<DataError>([] { parse_spellings("[]", "a.json"); }), "a.json");
}

TEST(NormalizerOf, TakesSpellingsFromTheSettingOrTheTokenizer) {
  const TempFolder folder;
  const data::Tokenizer characters(data::Vocabulary::from_texts({"abc"}), {});
  EXPECT_FALSE(normalizer_of({}, characters).has_value());
  EXPECT_PRED2(contains, message_of<ConfigError>([&] {
                 normalizer_of({.normalizer = NormalizerKind::kEnglish}, characters);
               }),
               "decode.spellings: FILE");
  const DecodeOptions named{.normalizer = NormalizerKind::kEnglish,
                            .spellings = folder.write("british.json", R"({"grey": "gray"})")};
  EXPECT_EQ(normalizer_of(named, characters)->apply("Grey colour"), "gray colour");
  test::write_tiny_whisper(folder);
  const data::Tokenizer whisper = data::Tokenizer::read(folder.path(), {});
  EXPECT_EQ(normalizer_of({.normalizer = NormalizerKind::kEnglish}, whisper)->apply("Colour"),
            "color");
}

TEST(NormalizerOptions, WithoutEffectAreRefused) {
  const auto refusal_of = [](const std::vector<std::string>& settings) {
    return message_of<ConfigError>([&] { read_overrides<DecodeOptions>(settings); });
  };
  EXPECT_PRED2(contains, refusal_of({"split_letters=true"}), "without decode.normalizer: basic");
  EXPECT_PRED2(contains, refusal_of({"remove_diacritics=true", "normalizer=english"}),
               "without decode.normalizer: basic");
  EXPECT_PRED2(contains, refusal_of({"spellings=a.json", "normalizer=basic"}),
               "without decode.normalizer: english");
  EXPECT_PRED2(contains, refusal_of({"normalizer=whisper"}), "none, basic, english");
  const auto fingerprint_of = [](const std::vector<std::string>& settings) {
    return fingerprint(read_overrides<DecodeOptions>(settings));
  };
  EXPECT_EQ(fingerprint_of({}), 0u);
  EXPECT_NE(fingerprint_of({"normalizer=basic"}), 0u);
  EXPECT_NE(fingerprint_of({"normalizer=basic"}),
            fingerprint_of({"normalizer=basic", "split_letters=true"}));
}

}  // namespace
}  // namespace sotto::decode
