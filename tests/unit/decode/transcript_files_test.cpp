// Transcripts as subtitles and JSON: what a player shows, whatever the text and the times are.
#include "sotto/decode/transcript_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sotto/core/rng.h"
#include "sotto/core/utf8.h"
#include "sotto/decode/captions.h"

namespace sotto::decode::transcript_files_test {
namespace {

using Word = Transcript::Word;

Transcript of_words(const std::vector<Word>& words) {
  Transcript transcript{.seconds = 60.0, .words = words};
  for (const Word& word : words)
    transcript.text += (transcript.text.empty() ? "" : " ") + word.text;
  return transcript;
}

// Three words, with a pause before the last.
const std::vector<Word> kGreeting = {
    {"good", 0.5, 0.9}, {"evening", 1.0, 1.25}, {"all", 3661.5, 3662.0}};

TEST(Subtitles, OfWordsAreDividedAtPauses) {
  EXPECT_EQ(to_srt(of_words(kGreeting)),
            "1\n00:00:00,500 --> 00:00:01,250\ngood evening\n\n"
            "2\n01:01:01,500 --> 01:01:02,000\nall\n\n");
  EXPECT_EQ(to_vtt(of_words(kGreeting)),
            "WEBVTT\n"
            "\n00:00:00.500 --> 00:00:01.250\ngood evening\n"
            "\n01:01:01.500 --> 01:01:02.000\nall\n");
}

TEST(Subtitles, OfSilenceAreEmpty) {
  EXPECT_EQ(to_srt({.seconds = 2.0}), "");
  EXPECT_EQ(to_vtt({.seconds = 2.0}), "WEBVTT\n");
  const Transcript blank{.seconds = 2.0,
                         .segments = {{.text = " \n", .start_s = 0.0, .end_s = 1.0}}};
  EXPECT_EQ(to_srt(blank), "");
  EXPECT_EQ(to_srt(of_words({{"\t\x01", 0.0, 1.0}})), "");
}

TEST(Subtitles, OfSegmentsKeepTheirTimes) {
  const Transcript transcript{.seconds = 9.0,
                              .segments = {{.text = " One two.", .start_s = 0.0, .end_s = 1.5},
                                           {.text = " Three.", .start_s = 1.5, .end_s = 4.0}}};
  EXPECT_EQ(to_srt(transcript),
            "1\n00:00:00,000 --> 00:00:01,500\nOne two.\n\n"
            "2\n00:00:01,500 --> 00:00:04,000\nThree.\n\n");
}

TEST(Subtitles, BeginANewCaptionWithEachSegmentOfWords) {
  Transcript transcript = of_words({{"one", 0.0, 0.5}, {"two", 0.5, 1.0}, {"three", 1.0, 1.5}});
  transcript.segments = {
      {.text = "one two", .end_s = 1.0, .first_word = 0, .end_word = 2},
      {.text = "three", .start_s = 1.0, .end_s = 1.5, .first_word = 2, .end_word = 3}};
  const std::vector<Caption> captions = make_captions(transcript);
  ASSERT_EQ(captions.size(), 2u);
  EXPECT_EQ(captions[0].lines, std::vector<std::string>{"one two"});
  EXPECT_EQ(captions[1].lines, std::vector<std::string>{"three"});
}

// Neither breaks out of its caption nor is taken for a time, a tag or an entity.
TEST(Subtitles, ShowHostileTextAsText) {
  const std::string hostile = "a\n\n9\n00:00:00,000 --> 00:00:09,000\r\n<b>&amp; ---> \u2028end";
  const Transcript transcript{.seconds = 3.0,
                              .segments = {{.text = hostile, .start_s = 1.0, .end_s = 2.0}}};
  EXPECT_EQ(to_srt(transcript),
            "1\n00:00:01,000 --> 00:00:02,000\n"
            "a 9 00:00:00,000 → 00:00:09,000 <b>&amp;\n-→ end\n\n");
  EXPECT_EQ(to_vtt(transcript),
            "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n"
            "a 9 00:00:00,000 --&gt; 00:00:09,000 &lt;b&gt;&amp;amp;\n---&gt; end\n");
}

TEST(Subtitles, RepairBytesThatAreNoText) {
  EXPECT_EQ(to_srt(of_words({{"a\xFF", 0.0, 1.0}})),
            "1\n00:00:00,000 --> 00:00:01,000\na\uFFFD\n\n");
}

void expect_in_order(const std::vector<Caption>& captions) {
  int64_t last = 0;
  for (const Caption& caption : captions) {
    EXPECT_GE(caption.start_ms, last);
    EXPECT_GT(caption.end_ms, caption.start_ms);
    last = caption.end_ms;
  }
}

TEST(Captions, AreInOrderWhateverTheTimesAre) {
  const double no_number = std::numeric_limits<double>::quiet_NaN();
  const double endless = std::numeric_limits<double>::infinity();
  const std::vector<Word> words = {
      {"a", 5.0, 4.0},     {"b", -3.0, -1.0},     {"c", 2.0, 2.0},     {"d", no_number, 1.0},
      {"e", 9.0, endless}, {"f", 9.0, no_number}, {"g", 1e300, 1e300}, {"h", 9.5, 30.0}};
  Transcript transcript = of_words(words);
  for (size_t i = 0; i < words.size(); ++i)
    transcript.segments.push_back({.text = words[i].text,
                                   .start_s = words[i].start_s,
                                   .end_s = words[i].end_s,
                                   .first_word = i,
                                   .end_word = i + 1});
  const std::vector<Caption> captions = make_captions(transcript);
  EXPECT_EQ(captions.size(), words.size());
  expect_in_order(captions);
  EXPECT_EQ(captions.back().end_ms - captions.back().start_ms, 7000) << "of a word of 20 s";
}

// Of words of up to 60 letters, of one to three bytes each.
TEST(Captions, FitOnAScreenAndLoseNothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomStream stream({.seed = seed}, {});
    std::vector<Word> words;
    std::u32string letters;
    double time = 0.0;
    for (uint64_t i = 0; i < 200; ++i) {
      const bool is_long = stream.uniform(4 * i) < 0.03f;
      const auto length =
          1 + static_cast<size_t>(stream.uniform(4 * i + 1) * (is_long ? 60.0f : 12.0f));
      const std::u32string text(length, stream.uniform(4 * i) < 0.5f ? U'\u20ac' : U'e');
      letters += text;
      time += std::max(0.0, 4.0 * double{stream.uniform(4 * i + 2)} - 2.8);
      const double end = time + 0.5 * double{stream.uniform(4 * i + 3)};
      words.push_back({to_utf8(text), time, end});
      time = end;
    }
    const std::vector<Caption> captions = make_captions(of_words(words));
    expect_in_order(captions);
    std::u32string shown;
    size_t num_full = 0;
    for (const Caption& caption : captions) {
      EXPECT_LE(caption.end_ms - caption.start_ms, 7000);
      EXPECT_LE(caption.lines.size(), 2u);
      num_full += caption.lines.size() == 2 ? 1 : 0;
      for (const std::string& line : caption.lines) {
        const std::u32string codes = code_points_of(line);
        EXPECT_LE(codes.size(), 42u);
        for (const char32_t code : codes)
          if (code != U' ') shown += code;
      }
    }
    EXPECT_EQ(shown, letters) << seed;
    EXPECT_GT(num_full, 3u);
  }
}

// A segment without times of words gives each part its share of the time.
TEST(Captions, OfALongSegmentShareItsTime) {
  const Transcript transcript{
      .seconds = 30.0,
      .segments = {{.text = std::string(200, 'x'), .start_s = 10.0, .end_s = 20.0}}};
  const std::vector<Caption> captions = make_captions(transcript);
  ASSERT_EQ(captions.size(), 3u);
  EXPECT_EQ(captions[0].start_ms, 10'000);
  EXPECT_EQ(captions[0].end_ms, 14'200);
  EXPECT_EQ(captions[1].start_ms, 14'200);
  EXPECT_EQ(captions[2].end_ms, 20'000);
}

TEST(TranscriptJson, HasSegmentsAndWords) {
  Transcript transcript = of_words(kGreeting);
  transcript.language = "en";
  EXPECT_EQ(
      to_json(transcript, "a.wav").dump(),
      R"({"audio_filepath":"a.wav","duration":60.0,"language":"en","text":"good evening all",)"
      R"("segments":[{"start":0.5,"end":1.25,"text":"good evening"},)"
      R"({"start":3661.5,"end":3662.0,"text":"all"}],)"
      R"("words":[{"word":"good","start":0.5,"end":0.9},)"
      R"({"word":"evening","start":1.0,"end":1.25},{"word":"all","start":3661.5,"end":3662.0}]})");
}

}  // namespace
}  // namespace sotto::decode::transcript_files_test
