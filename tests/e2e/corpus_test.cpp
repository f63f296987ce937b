// A corpus from recordings to a trained network, and what its faults come to: the rows of the table
// in docs/data.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/wav_bytes.h"
#include "unit/data/audio/sound_file.h"

namespace sotto::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::CommandResult;
using test::contains;
using test::content_of;
using test::run_sotto;
using test::TempFolder;

class Corpus : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }

  void sound(const std::string& name, const Sound& sound) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    write_sound(at(name), sound);
  }
  void line(const std::string& name, double seconds, const std::string& text) {
    lines_ += json{{"audio_filepath", name}, {"duration", seconds}, {"text", text}}.dump() + "\n";
  }
  // Eight good utterances.
  void good_utterances() {
    for (int i = 0; i < 8; ++i) {
      const std::string name = fmt::format("good{}.wav", i);
      sound(name, tone(0.5 + 0.05 * i));
      line(name, 0.5 + 0.05 * i, i % 2 == 0 ? "ab" : "ba a");
    }
  }
  // Of the letters of the good ones.
  std::string vocabulary() const {
    return folder_.write("vocab.json", R"({"<pad>": 0, "|": 1, "a": 2, "b": 3})").string();
  }
  // Two updates of a tiny network.
  void append_usual(std::vector<std::string>& words) const {
    for (const char* word :
         {"--max-steps", "2", "--memory", "200MiB", "--set", "model.layers=1", "--set",
          "model.width=16", "--set", "model.hidden=32", "--set", "model.heads=2", "--out"})
      words.emplace_back(word);
    words.push_back(at("run"));
  }
  // Such updates, on the lines so far.
  CommandResult train(const std::vector<std::string>& settings) const {
    fs::remove_all(at("run"));
    folder_.write("m.jsonl", lines_);
    std::vector<std::string> words = {"train", "--train", at("m.jsonl")};
    append_usual(words);
    words.insert(words.end(), {"--set", "effective_batch=16"});
    for (const std::string& setting : settings) {
      words.emplace_back("--set");
      words.push_back(setting);
    }
    return run_sotto(words);
  }

  TempFolder folder_;
  std::string lines_;
};

// P3: import, split, train.
TEST_F(Corpus, TableBecomesTrainedModelInThreeCommands) {
  std::string table = "file;said;who\n";
  for (int i = 0; i < 20; ++i) {
    sound(fmt::format("rec/{}.flac", i), tone(0.4 + 0.02 * i));
    table += fmt::format("{}.flac;{};speaker {}\n", i, i % 2 == 0 ? "Ab" : "ba", i % 5);
  }
  folder_.write("rec/list.csv", table);
  const CommandResult imported =
      run_sotto({"data", "import", at("rec/list.csv"), "--text-column", "said", "--speaker-column",
                 "who", "--out", at("all.jsonl")});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  const CommandResult split = run_sotto({"data", "split", at("all.jsonl"), "--dev", "20%", "--test",
                                         "20%", "--by", "speaker", "--out", at("parts")});
  ASSERT_EQ(split.exit_code, 0) << split.err;
  std::vector<std::string> words = {"train", "--train", at("parts/train.jsonl"), "--dev",
                                    at("parts/dev.jsonl")};
  append_usual(words);
  words.insert(words.end(), {"--set", "data.text.case=lower"});
  const CommandResult trained = run_sotto(words);
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(json::parse(content_of(at("run/best/vocab.json"))),
            json::parse(R"({"<pad>": 0, "|": 1, "a": 2, "b": 3})"));
}

TEST_F(Corpus, TrainsWithSpeedNoiseMasksAndCache) {
  good_utterances();
  sound("hum.wav", tone(0.3));
  folder_.write("noise.jsonl",
                json{{"audio_filepath", "hum.wav"}, {"duration", 0.3}, {"text", ""}}.dump());
  const std::vector<std::string> settings = {
      "data.augment.speeds=[0.9, 1.0, 1.1]", "data.augment.noise=" + at("noise.jsonl"),
      "data.cache=disk", "data.loader_memory=1MiB", "curriculum=bucketed"};
  const CommandResult result = train(settings);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "equal to the byte");
}

// After two updates the transcripts are noise, but their format is still right.
TEST_F(Corpus, IsTranscribedInWindows) {
  good_utterances();
  ASSERT_EQ(train({}).exit_code, 0);
  sound("long.wav", tone(3.3));
  const auto transcribe = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"transcribe", "--checkpoint", at("run"), at("long.wav")};
    words.insert(words.end(), more.begin(), more.end());
    return run_sotto(words);
  };
  const CommandResult whole = transcribe({"--json"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const CommandResult windows = transcribe({"--json", "--window", "1", "--overlap", "0.4"});
  ASSERT_EQ(windows.exit_code, 0) << windows.err;
  for (const CommandResult& result : {whole, windows}) {
    const json transcript = json::parse(result.out)[0];
    EXPECT_NEAR(transcript["duration"].get<double>(), 3.3, 1e-6);
    double last = 0.0;
    for (const json& word : transcript["words"]) {
      EXPECT_LE(last, word["start"].get<double>());
      EXPECT_LT(word["start"].get<double>(), word["end"].get<double>());
      last = word["end"];
    }
    EXPECT_LE(last, 3.3 + 1e-6);
  }
  folder_.write("lm.arpa", "\\data\\\nngram 1=2\n\\1-grams:\n-0.3 ab\n-0.3 </s>\n\\end\\\n");
  EXPECT_EQ(transcribe({"--beam", "4", "--lm", at("lm.arpa"), "--srt"}).exit_code, 0);
  const auto expect_refusal = [&](std::vector<std::string> more, const std::string& part) {
    const CommandResult result = transcribe(std::move(more));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_PRED2(contains, result.err, part);
  };
  expect_refusal({"--srt", "--json"}, "--srt and --json");
  expect_refusal({"--srt", at("good0.wav")}, "--format srt and 2 files");
  expect_refusal({"--window", "2", "--overlap", "2"},
                 "windows of 2 s that overlap by 2 s. Expected a window of at least 2.");
  // None of these is a sample, longer than the overlap by one, or long enough for the network.
  expect_refusal({"--window", "0.00001", "--overlap", "0"}, "a window of at least 0.0");
  expect_refusal({"--window", "1.00003", "--overlap", "1"}, "a window of at least 1.0");
  expect_refusal({"--window", "0.002", "--overlap", "0"}, "a window of at least 0.0");
  expect_refusal({"--window", "nan"}, "window");
  const std::regex least("a window of at least ([0-9.]+) s");
  std::smatch found;
  const std::string refused = transcribe({"--window", "0.001", "--overlap", "0"}).err;
  ASSERT_TRUE(std::regex_search(refused, found, least)) << refused;
  EXPECT_EQ(transcribe({"--window", found[1], "--overlap", "0"}).exit_code, 0);
  EXPECT_EQ(transcribe({"--window", "1e300"}).exit_code, 0);
  expect_refusal({"--lm-weight", "1"}, "without --lm");
  expect_refusal({"--lm", at("long.wav")}, "long.wav");
  expect_refusal({"--lm", at("gone.arpa")}, "gone.arpa");
}

// A user who names a released model may expect its weights.
TEST_F(Corpus, TrainingReportsRandomWeights) {
  good_utterances();
  const std::vector<std::string> settings = {"model.preset=wav2vec2-base",
                                             "model.conv_widths=[8, 8, 8, 8, 8, 8, 8]"};
  const CommandResult random = train(settings);
  ASSERT_EQ(random.exit_code, 0) << random.err;
  EXPECT_PRED2(contains, random.err,
               "wav2vec2-base starts from random weights. For the pretrained model type: hf "
               "download facebook/wav2vec2-base and then --model facebook/wav2vec2-base\n");
  fs::rename(at("run"), at("first"));
  std::vector<std::string> begun = settings;
  begun.push_back("init_from=" + at("first"));
  EXPECT_FALSE(contains(train(begun).err, "random weights"));
  EXPECT_FALSE(contains(train({}).err, "random weights"));
}

// To a file or to a folder, in the format that is named or that the file's name says.
TEST_F(Corpus, IsTranscribedToFiles) {
  good_utterances();
  ASSERT_EQ(train({}).exit_code, 0);
  const auto transcribe = [&](std::vector<std::string> files, std::vector<std::string> more) {
    std::vector<std::string> words = {"transcribe", "--checkpoint", at("run")};
    words.insert(words.end(), files.begin(), files.end());
    words.insert(words.end(), more.begin(), more.end());
    return run_sotto(words);
  };
  const std::string one = at("good0.wav"), other = at("good1.wav");
  for (const std::string format : {"text", "json", "srt", "vtt"}) {
    const std::string ending = format == "text" ? "txt" : format;
    const CommandResult printed = transcribe({one}, {"--format", format});
    ASSERT_EQ(printed.exit_code, 0) << printed.err;
    ASSERT_EQ(transcribe({one}, {"--out", at("by_name." + ending)}).exit_code, 0);
    EXPECT_EQ(content_of(at("by_name." + ending)), printed.out) << format;
    const CommandResult both =
        transcribe({one, other}, {"--format", format, "--out", at("new/folder")});
    ASSERT_EQ(both.exit_code, 0) << both.err;
    EXPECT_EQ(content_of(at("new/folder/good0." + ending)), printed.out) << format;
    EXPECT_TRUE(fs::exists(at("new/folder/good1." + ending)));
    EXPECT_PRED2(contains, both.out, "good1." + ending);
  }
  EXPECT_EQ(transcribe({one}, {"--srt"}).out, content_of(at("by_name.srt")));
  EXPECT_TRUE(content_of(at("by_name.vtt")).starts_with("WEBVTT\n"));
  EXPECT_TRUE(json::parse(content_of(at("by_name.json")))[0].contains("segments"));
  const auto expect_refusal = [&](std::vector<std::string> files, std::vector<std::string> more,
                                  const std::string& part) {
    const CommandResult result = transcribe(std::move(files), std::move(more));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_PRED2(contains, result.err, part);
    EXPECT_PRED2(contains, result.err, "Expected");
  };
  expect_refusal({one}, {"--format", "pdf"}, "text, json, srt or vtt");
  expect_refusal({one}, {"--format", "vtt", "--srt"}, "--format vtt and --srt");
  expect_refusal({one}, {"--out", ""}, "--out without a name");
  expect_refusal({one, other}, {"--out", at("by_name.srt")}, "a file, and 2 recordings");
  expect_refusal({one}, {"--out", one}, "the input file itself");
  sound("again/good0.flac", tone(0.5));
  expect_refusal({one, at("again/good0.flac")}, {"--out", at("new")}, "would both be");
  expect_refusal({one}, {"--set", "decode.whisper.no_speech_threshold=0.5"}, "Whisper's tokens");
  expect_refusal({one}, {"--set", "decode.length_penalty=1"}, "decode.length_penalty 1 for CTC");
}

// Files that can be read are transcribed even if others cannot.
TEST_F(Corpus, IsTranscribedExceptMissingFiles) {
  good_utterances();
  ASSERT_EQ(train({}).exit_code, 0);
  std::vector<std::string> words = {"transcribe",   "--checkpoint",  at("run"),  at("good0.wav"),
                                    at("gone.wav"), at("good1.wav"), "--memory", "500MiB"};
  const CommandResult text = run_sotto(words);
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_PRED2(contains, text.out, at("good0.wav") + ": ");
  EXPECT_PRED2(contains, text.out, at("good1.wav") + ": ");
  EXPECT_PRED2(contains, text.err, "gone.wav: No such file or directory");
  EXPECT_PRED2(contains, text.err, "transcribing 3 files: 1 could not be transcribed: ");
  words.emplace_back("--json");
  const CommandResult result = run_sotto(words);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(json::parse(result.out).size(), 2u);
}

// What does not fit into the budget is refused before it is allocated.
TEST_F(Corpus, IsTranscribedWithinBudget) {
  good_utterances();
  ASSERT_EQ(train({}).exit_code, 0);
  std::string slow = test::wav_bytes(120'000, 0.1);
  slow[24] = 1;  // Hz
  slow[25] = 0;
  folder_.write("slow.wav", slow);
  sound("long.flac", {.samples = std::vector<float>(30 * 60 * 8'000), .sample_rate = 8'000});
  const auto refusal = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"transcribe", "--checkpoint", at("run"), "--memory",
                                      "200MiB"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_PRED2(contains, refusal({at("slow.wav")}), "its header claims 1 samples per second");
  EXPECT_PRED2(contains, refusal({at("long.flac")}), "30 min 00 s of audio. Expected at most ");
  EXPECT_PRED2(contains, refusal({at("good0.wav"), "--beam", "1000000000"}), "--beam");
  const CommandResult small =
      run_sotto({"transcribe", "--checkpoint", at("run"), "--memory", "4KiB", at("good0.wav")});
  EXPECT_EQ(small.exit_code, 2) << small.err;
  EXPECT_PRED2(contains, small.err, "the network alone needs");
}

TEST_F(Corpus, EvaluationListsSpeakersAndWorstUtterances) {
  good_utterances();
  ASSERT_EQ(train({}).exit_code, 0);
  std::string lines;
  for (int i = 0; i < 4; ++i) {
    lines += json{{"audio_filepath", fmt::format("good{}.wav", i)},
                  {"duration", 0.5 + 0.05 * i},
                  {"text", i == 2 ? "ab ab ab ab ab" : "ab"},
                  {"speaker", i < 3 ? "ana" : "theo"}}
                 .dump() +
             "\n";
  }
  folder_.write("spoken.jsonl", lines);
  const std::vector<std::string> words = {"eval", "--checkpoint", at("run"), "--data",
                                          at("spoken.jsonl")};
  std::vector<std::string> shown = words;
  shown.insert(shown.end(), {"--by", "speaker", "--worst", "1", "--beam", "4"});
  const CommandResult result = run_sotto(shown);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "ana");
  EXPECT_PRED2(contains, result.out, "theo");
  EXPECT_PRED2(contains, result.out, "utterance 3, ");
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const json evaluated = json::parse(run_sotto(as_json).out);
  EXPECT_EQ(evaluated["speakers"]["ana"]["utterances"], 3);
  EXPECT_EQ(evaluated["speakers"]["theo"]["wer"]["reference"], 1);
  EXPECT_TRUE(evaluated["languages"].empty());
}

TEST_F(Corpus, TrainsWithFixedMicroBatches) {
  good_utterances();
  const CommandResult result = train({"adaptive_batching=false", "micro_batch=3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const CommandResult refused = train({"adaptive_batching=false"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "adaptive_batching: false without micro_batch");
}

TEST_F(Corpus, FaultEndsRunOnlyIfPolicySaysSo) {
  struct Row {
    const char* name;
    std::function<void()> add;
    const char* message;
  };
  const std::vector<Row> rows = {
      {"broken line", [&] { lines_ += "{\"audio_filepath\": \n"; }, "line 9: not JSON"},
      {"missing file", [&] { line("gone.wav", 1.0, "a"); }, "gone.wav: No such file"},
      {"folder",
       [&] {
         fs::create_directories(at("dir.wav"));
         line("dir.wav", 1.0, "a");
       },
       "dir.wav: it is a folder"},
      {"FLAC cut in half",
       [&] {
         sound("whole.flac", tone(1.0));
         const std::string bytes = content_of(at("whole.flac"));
         folder_.write("half.flac", bytes.substr(0, bytes.size() / 2));
         line("half.flac", 1.0, "a");
       },
       "half.flac"},
      {"WAV header that lies",
       [&] {
         sound("lie.wav", tone(0.5));
         std::string bytes = content_of(at("lie.wav"));
         bytes.resize(bytes.size() / 2);
         folder_.write("lie.wav", bytes);
         line("lie.wav", 0.5, "a");
       },
       "lie.wav"},
      {"no samples",
       [&] {
         sound("none.wav", tone(0.0));
         line("none.wav", 1.0, "a");
       },
       "none.wav"},
      {"NaN samples",
       [&] {
         Sound nan = tone(0.5);
         nan.samples[9] = std::numeric_limits<float>::quiet_NaN();
         sound("nan.float.wav", nan);
         line("nan.float.wav", 0.5, "a");
       },
       "sample 9 is nan"},
      {"longer than said",
       [&] {
         sound("long.wav", tone(2.0));
         line("long.wav", 1.0, "a");
       },
       "2.000 s of audio"},
      {"video",
       [&] {
         folder_.write("talk.mp4", "x");
         line("talk.mp4", 1.0, "a");
       },
       "ffmpeg -i"}};
  for (const Row& row : rows) {
    lines_.clear();
    good_utterances();
    row.add();
    const CommandResult refused = train({"data.tokenizer=" + vocabulary()});
    EXPECT_EQ(refused.exit_code, 2) << row.name;
    EXPECT_PRED2(contains, refused.err, row.message) << row.name;
    const CommandResult skipped = train({"data.tokenizer=" + vocabulary(), "data.broken=skip"});
    EXPECT_EQ(skipped.exit_code, 0) << row.name << skipped.err;
  }
}

// Unusual audio that is not an error.
TEST_F(Corpus, MayHaveAnyRateAndChannelCount) {
  good_utterances();
  sound("eight.wav", tone(0.5, /*channels=*/8));
  line("eight.wav", 0.5, "ab");
  sound("high.wav", tone(0.5, 1, 96'000));
  line("high.wav", 0.5, "ab");
  EXPECT_EQ(train({}).exit_code, 0);
}

TEST_F(Corpus, UnknownScriptsFollowPolicy) {
  good_utterances();
  sound("other.wav", tone(1.0));
  line("other.wav", 1.0, "שלום");
  const CommandResult refused = train({"data.tokenizer=" + vocabulary()});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "unknown characters");
  EXPECT_EQ(train({"data.tokenizer=" + vocabulary(), "data.unknown_text=skip"}).exit_code, 0);
  EXPECT_EQ(train({}).exit_code, 0) << "a vocabulary of its own has every script";
}

TEST_F(Corpus, IsChecked) {
  good_utterances();
  Sound silent = tone(0.5);
  for (float& sample : silent.samples) sample = 0.0f;
  sound("silent.wav", silent);
  line("silent.wav", 0.5, "ab");
  line("gone.wav", 0.5, "ab");
  folder_.write("m.jsonl", lines_);
  const CommandResult table = run_sotto({"data", "check", at("m.jsonl")});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_PRED2(contains, table.out, "10 utterances");
  EXPECT_PRED2(contains, table.out, "silent");
  EXPECT_PRED2(contains, table.out, "unreadable");
  const CommandResult strict = run_sotto(
      {"data", "check", at("m.jsonl"), "--strict", "--json", "--write-clean", at("clean.jsonl")});
  EXPECT_EQ(strict.exit_code, 2);
  EXPECT_EQ(json::parse(strict.out).at("counts"), json::parse(R"({"unreadable": 1, "silent": 1})"));
  EXPECT_EQ(run_sotto({"data", "check", at("clean.jsonl"), "--strict", "--tokenizer", vocabulary(),
                       "--model", "wav2vec2-base"})
                .exit_code,
            0);
  EXPECT_PRED2(contains,
               run_sotto({"data", "check", at("m.jsonl"), "--model", "wav2vec2-base"}).err,
               "--model without --tokenizer");
  EXPECT_PRED2(contains, run_sotto({"data", "check", at("m.jsonl"), "--case", "lower"}).err,
               "text rules without --tokenizer");
}

// 5.2 million lines must be profiled in 200 MiB, of which the program itself takes 127. Checks the
// bytes per line and the buffers of the threads, with and without an existing index.
TEST_F(Corpus, LargeCorpusIsProfiledInLittleMemory) {
  constexpr int64_t kLines = 600'000;
  const auto write_lines = [&](const char* name, int64_t count) {
    std::string lines;
    for (int64_t i = 0; i < count; ++i)
      lines += fmt::format(R"({{"audio_filepath": "{}.wav", "duration": {}.5, "text": "a {}"}})"
                           "\n",
                           i, 1 + i % 20, i % 7);
    return folder_.write(name, lines).string();
  };
  const auto profile = [&](const std::string& path) {
    const CommandResult result = run_sotto({"profile", "--data", path, "--sample", "1"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.peak_bytes;
  };
  const int64_t few = profile(write_lines("few.jsonl", 10));
  const std::string many = write_lines("many.jsonl", kLines);
  for (int round = 0; round < 2; ++round)
    EXPECT_LT(profile(many) - few, 14 * kLines + (16 << 20)) << "round " << round;
}

TEST_F(Corpus, IsProfiled) {
  good_utterances();
  folder_.write("m.jsonl", lines_);
  const CommandResult table = run_sotto({"profile", "--data", at("m.jsonl")});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_PRED2(contains, table.out, "16000 Hz, 1 channel, .wav (8)");
  EXPECT_PRED2(contains, table.out, "█");
  const json found =
      json::parse(run_sotto({"profile", "--data", at("m.jsonl"), "--sample", "3", "--json"}).out);
  EXPECT_EQ(found.at("utterances"), 8);
  EXPECT_EQ(found.at("sampled"), 3);
  EXPECT_NEAR(found.at("audio_seconds").get<double>(), 5.4, 1e-5);
  EXPECT_EQ(run_sotto({"profile", "--data", at("m.jsonl"), "--sample", "some"}).exit_code, 2);
  EXPECT_EQ(run_sotto({"profile", "--sample", "3"}).exit_code, 2);
}

}  // namespace
}  // namespace sotto::data
