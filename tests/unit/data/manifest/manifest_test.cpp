#include "sotto/data/manifest/manifest.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/manifest/manifest_writer.h"
#include "support/reader_samples.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

constexpr const char* kGood = R"({"audio_filepath": "a.wav", "duration": 1.5, "text": "hi"})";

std::string refusal_of(const std::string& content) {
  const TempFolder folder;
  const std::filesystem::path path = folder.write("m.jsonl", content);
  return message_of<DataError>([&] { Manifest::read(path).refuse_bad_lines(); });
}

// What is said of a second line behind a good one.
std::string refusal_of_line(const std::string& line) {
  const std::string message = refusal_of(std::string(kGood) + "\n" + line + "\n");
  EXPECT_PRED2(contains, message, "m.jsonl: line 2: ");
  return message;
}

TEST(Manifest, ReadsAudio) {
  const TempFolder folder;
  const Manifest manifest = Manifest::read(folder.write(
      "sub/m.jsonl",
      R"({"audio_filepath": "audio/a.flac", "duration": 2, "text": "zażółć", "speaker": "theo", "lang": "pl", "pred_text": [1, {}]})"
      "\r\n\n"
      R"({"audio_filepath": "/abs/b.mp3", "duration": 0.5, "text": "", "offset": 0, "speaker": null})"));
  ASSERT_EQ(manifest.size(), 2);
  EXPECT_EQ(manifest.feature_dim(), 0);
  const Utterance first = manifest.at(0);
  EXPECT_EQ(manifest.path_of(first), folder.path() / "sub/audio/a.flac");
  EXPECT_EQ(first.duration_s, 2.0);
  EXPECT_EQ(first.text, "zażółć");
  EXPECT_EQ(first.speaker, "theo");
  EXPECT_EQ(first.lang, "pl");
  EXPECT_EQ(first.line, 1);
  EXPECT_FALSE(first.offset_s.has_value());
  const Utterance second = manifest.at(1);
  EXPECT_EQ(manifest.path_of(second), "/abs/b.mp3");
  EXPECT_EQ(second.line, 3);
  EXPECT_EQ(second.text, "");
  EXPECT_EQ(second.offset_s, 0.0);
  EXPECT_EQ(second.speaker, "");
  EXPECT_EQ(manifest.index().characters(),
            (std::vector<char32_t>{U'a', U'z', U'ó', U'ć', U'ł', U'ż'}));
}

TEST(Manifest, ReadsFeatures) {
  const TempFolder folder;
  const Manifest manifest = Manifest::read(folder.write(
      "m.jsonl",
      "\xEF\xBB\xBF"
      R"({"feature_filepath": "x.f16", "frame_offset": 7, "num_frames": 9, "feature_dim": 13, "duration": 0.09, "text": "a"})"));
  const Utterance utterance = manifest.at(0);
  EXPECT_EQ(manifest.feature_dim(), 13);
  EXPECT_EQ(utterance.frame_offset, 7);
  EXPECT_EQ(utterance.num_frames, 9);
}

TEST(Manifest, FingerprintDependsOnTheContent) {
  const TempFolder folder;
  const std::string line = std::string(kGood) + "\n";
  const uint64_t once = Manifest::read(folder.write("a.jsonl", line)).fingerprint();
  EXPECT_EQ(Manifest::read(folder.write("b.jsonl", line)).fingerprint(), once);
  EXPECT_NE(Manifest::read(folder.write("c.jsonl", line + line)).fingerprint(), once);
  std::string other = line;
  other[other.find("hi")] = 'H';
  EXPECT_NE(Manifest::read(folder.write("d.jsonl", other)).fingerprint(), once);
}

TEST(Manifest, RefusesInvalidFiles) {
  const TempFolder folder;
  const auto refusal = [](const std::filesystem::path& path) {
    return message_of<DataError>([&] { Manifest::read(path); });
  };
  EXPECT_PRED2(contains, refusal(folder.path() / "no.jsonl"),
               "no.jsonl: No such file or directory. Expected a manifest: JSON lines");
  EXPECT_PRED2(contains, refusal(folder.path()), "it is a folder");
  EXPECT_PRED2(contains, refusal_of(""), "m.jsonl: no utterance");
  EXPECT_PRED2(contains, refusal_of("\n  \n"), "no utterance");
}

TEST(Manifest, RefusesLinesThatAreNotObjects) {
  EXPECT_PRED2(contains, refusal_of_line(R"({"audio_filepath": "a.wav",)"),
               "not JSON: {\"audio_filepath\": \"a.wav\",. Expected a JSON object on each line");
  EXPECT_PRED2(contains, refusal_of_line("[1, 2]"), "array, not an object: [1, 2]");
  EXPECT_PRED2(contains, refusal_of_line("\"gr\xFC\""), "not UTF-8. Expected text in UTF-8");
  // For the JSON parser a text ends at a zero, whatever follows.
  EXPECT_PRED2(contains, refusal_of_line(std::string("1\0\xF8", 3)), "a zero byte");
  EXPECT_PRED2(contains, refusal_of_line(test::manifest_line_sample(1) + std::string("\0x", 2)),
               "a zero byte. Expected text in UTF-8");
  // Cut between characters, not inside one.
  std::string umlauts;
  for (int i = 0; i < 50; ++i) umlauts += "ü";
  EXPECT_PRED2(contains, refusal_of_line("x" + umlauts), "üü....");
}

TEST(Manifest, RefusesMissingKeys) {
  EXPECT_PRED2(contains, refusal_of_line(R"({"duration": 1, "text": "a"})"),
               "neither audio_filepath nor feature_filepath. Expected one of them. An utterance "
               "has audio_filepath, or feature_filepath with");
  EXPECT_PRED2(contains, refusal_of_line(R"({"audio_filepath": "a.wav", "text": "a"})"),
               "no key 'duration'");
  EXPECT_PRED2(contains, refusal_of_line(R"({"audio_filepath": "a.wav", "duration": 1})"),
               "no key 'text'");
  for (const char* key : {"frame_offset", "num_frames", "feature_dim"}) {
    std::string line =
        R"({"feature_filepath": "x", "frame_offset": 0, "num_frames": 1, "feature_dim": 1, "duration": 1, "text": ""})";
    line.replace(line.find(key), 2, "xx");
    EXPECT_PRED2(contains, refusal_of_line(line), std::string("no key '") + key + "'");
  }
}

TEST(Manifest, RefusesWrongTypesAndValues) {
  const auto with = [](const std::string& fields) {
    return refusal_of_line(R"({"audio_filepath": "a.wav", "duration": 1, "text": "a", )" + fields +
                           "}");
  };
  EXPECT_PRED2(contains, with(R"("audio_filepath": 3)"), "audio_filepath is 3. Expected a string");
  EXPECT_PRED2(contains, with(R"("audio_filepath": "")"),
               "audio_filepath is \"\". Expected the name of a file");
  EXPECT_PRED2(contains, with(R"("duration": "1.5")"),
               "duration is \"1.5\". Expected seconds, a number from 0 to");
  EXPECT_PRED2(contains, with(R"("duration": null)"), "duration is null");
  EXPECT_PRED2(contains, with(R"("duration": -1)"), "duration is -1");
  EXPECT_PRED2(contains, with(R"("duration": 0)"),
               "duration is 0. Expected seconds, a number of at least");
  // What an index cannot hold.
  EXPECT_PRED2(contains, with(R"("duration": 1e300)"), "duration is 1e+300. Expected seconds");
  EXPECT_PRED2(contains, with(R"("duration": 1e-300)"),
               "duration is 1e-300. Expected seconds, a number of at least 1e-09");
  EXPECT_PRED2(contains, with(R"("offset": 1e300)"), "offset is 1e+300");
  EXPECT_PRED2(contains, with(R"("text": 7)"), "text is 7. Expected a string");
  EXPECT_PRED2(contains, with(R"("offset": -0.5)"), "offset is -0.5");
  EXPECT_PRED2(contains, with(R"("speaker": 4)"), "speaker is 4. Expected a string");
  EXPECT_PRED2(contains, with(R"("lang": [])"), "lang is []");
}

TEST(Manifest, ReadsSegments) {
  const TempFolder folder;
  const auto path = folder.write(
      "m.jsonl",
      R"({"audio_filepath": "a.flac", "duration": 3, "text": "a b", "segments": )"
      R"([{"offset": 0, "duration": 1.5, "text": "a"}, {"offset": 2, "duration": 1, "text": "b"}]})");
  const Utterance utterance = Manifest::read(path).at(0);
  ASSERT_EQ(utterance.segments.size(), 2u);
  EXPECT_EQ(utterance.segments[1].offset_s, 2.0);
  EXPECT_EQ(utterance.segments[1].end_s(), 3.0);
  EXPECT_EQ(utterance.segments[1].text, "b");
  // What is written is read back.
  Utterance again = std::get<Utterance>(parse_manifest_line(manifest_line(utterance)));
  EXPECT_EQ(again.segments[0].text, "a");
  EXPECT_EQ(again.segments[1].duration_s, 1.0);
}

TEST(Manifest, RefusesInvalidSegments) {
  const auto with = [](const std::string& segments) {
    const auto parsed = parse_manifest_line(
        R"({"audio_filepath": "a.flac", "duration": 3, "text": "a", "segments": )" + segments +
        "}");
    return std::holds_alternative<LineFault>(parsed) ? std::get<LineFault>(parsed).found : "none";
  };
  EXPECT_EQ(with("[]"), "none");
  EXPECT_EQ(with("3"), "segments is 3");
  EXPECT_EQ(with("[3]"), "segments: an item is number");
  EXPECT_EQ(with(R"([{"offset": 0, "duration": 1}])"), "no key 'text'");
  EXPECT_EQ(with(R"([{"offset": -1, "duration": 1, "text": ""}])"), "offset is -1");
  EXPECT_EQ(with(R"([{"offset": 1, "duration": 0, "text": ""}])"), "a segment from 1 to 1 s");
  EXPECT_EQ(with(R"([{"offset": 1, "duration": 2.5, "text": ""}])"), "a segment from 1 to 3.5 s");
  EXPECT_EQ(with(R"([{"offset": 1, "duration": 1, "text": ""},)"
                 R"( {"offset": 0.5, "duration": 0.2, "text": ""}])"),
            "a segment from 0.5 to 0.7 s");
  // As deep as its writer liked.
  EXPECT_EQ(with("[" + std::string(200'000, '[') + std::string(200'000, ']') + "]"),
            "segments: an item is array");
}

TEST(Manifest, RefusesCountsBeyond32Bits) {
  for (const auto& [key, most] :
       {std::pair{"num_frames", 4'294'967'295}, {"feature_dim", 1 << 20}}) {
    std::string line = test::feature_line_sample();
    line.insert(line.size() - 1, fmt::format(R"(, "{}": {})", key, most + 1));
    EXPECT_PRED2(
        contains, refusal_of_line(line),
        fmt::format("{} is {}. Expected a whole number from 1 to {}", key, most + 1, most));
  }
}

TEST(Manifest, RefusesZeroByteInAName) {
  EXPECT_PRED2(
      contains,
      refusal_of_line(R"({"audio_filepath": "a.wav\u0000.txt", "duration": 1, "text": "a"})"),
      R"(audio_filepath is "a.wav\u0000.txt". Expected the name of a file)");
}

TEST(Manifest, RefusesTwoKindsOfSource) {
  EXPECT_PRED2(
      contains,
      refusal_of_line(
          R"({"audio_filepath": "a", "feature_filepath": "b", "duration": 1, "text": "a"})"),
      "both audio_filepath and feature_filepath. Expected one of them");
  const auto features = [](const char* dim, const char* offset, const char* frames) {
    return std::string(R"({"feature_filepath": "x", "duration": 1, "text": "", "feature_dim": )") +
           dim + R"(, "frame_offset": )" + offset + R"(, "num_frames": )" + frames + "}\n";
  };
  EXPECT_PRED2(
      contains, refusal_of(features("13", "0", "1") + "\n" + features("40", "0", "1")),
      "line 3: features of dimension 40. Expected features of dimension 13, as in its first line");
  EXPECT_PRED2(
      contains, refusal_of(features("13", "0", "1") + kGood),
      "line 2: audio. Expected features of dimension 13, as in its first line. A manifest has "
      "either audio or features");
  EXPECT_PRED2(contains, refusal_of(features("0", "0", "1")),
               "feature_dim is 0. Expected a whole number from 1 to");
  EXPECT_PRED2(contains, refusal_of(features("1", "-1", "1")),
               "frame_offset is -1. Expected a whole number from 0 to");
  EXPECT_PRED2(contains, refusal_of(features("1", "0", "1.5")), "num_frames is 1.5");
  EXPECT_PRED2(contains, refusal_of(features("1", "0", "18446744073709551615")),
               "num_frames is 18446744073709551615");
}

}  // namespace
}  // namespace sotto::data
