// `sotto data import` and `sotto data split`, from a folder of recordings to parts of a manifest.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/run_command.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
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

class DataCommand : public testing::Test {
 protected:
  void sound(const fs::path& name, double seconds = 0.25) const {
    fs::create_directories((folder_.path() / name).parent_path());
    write_sound(folder_.path() / name, tone(seconds));
  }

  std::string at(const fs::path& name) const { return (folder_.path() / name).string(); }

  // A folder of `count` recordings of a quarter of a second with transcripts.
  void recordings(const fs::path& name, int count) const {
    sound(name / "0000.wav");
    for (int i = 0; i < count; ++i) {
      const fs::path stem = name / fmt::format("{:04}", i);
      if (i > 0) fs::copy_file(at(name / "0000.wav"), at(stem) + ".wav");
      folder_.write(stem.string() + ".txt", fmt::format("number {}", i));
    }
  }

  json import_json(const fs::path& source, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"data",  "import",        at(source),
                                      "--out", at("all.jsonl"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  }

  std::vector<json> lines(const fs::path& name) const {
    std::vector<json> all;
    std::ifstream file(at(name));
    for (std::string line; std::getline(file, line);) all.push_back(json::parse(line));
    return all;
  }

  TempFolder folder_;
};

TEST_F(DataCommand, EverySourceIsRecognised) {
  recordings("folder", 2);
  sound("table/a.flac");
  folder_.write("table/list.tsv", "sentence\tpath\nhello\ta.flac\n");
  sound("cv/clips/a.mp3", 1.0);
  folder_.write("cv/validated.tsv", "client_id\tpath\tsentence\tlocale\nme\ta.mp3\thello\ten\n");
  sound("lj/wavs/LJ-1.wav");
  folder_.write("lj/metadata.csv", "LJ-1|No. 1|number one\n");
  sound("ls/84/1/84-1-0000.flac");
  folder_.write("ls/84/1/84-1.trans.txt", "84-1-0000 HELLO\n");
  sound("kaldi/a.wav");
  folder_.write("kaldi/wav.scp", "rec " + at("kaldi/a.wav") + "\n");
  folder_.write("kaldi/segments", "u1 rec 0.05 0.15\n");
  folder_.write("kaldi/text", "u1 hello\n");
  folder_.write("kaldi/utt2spk", "u1 anna\n");
  folder_.write("nemo/audio_3.tar",
                test::tar_file({.name = "a.wav"}, content_of(at("kaldi/a.wav"))));
  folder_.write("nemo/m.json",
                R"({"audio_filepath": "a.wav", "duration": 0.25, "text": "hello", "shard_id": 3})");
  struct Source {
    const char *path, *name, *line;
  };
  for (
      const Source& source :
      {Source{"folder", "folder",
              R"({"audio_filepath":"folder/0000.wav","duration":0.25,"text":"number 0"})"},
       Source{"table/list.tsv", "table",
              R"({"audio_filepath":"table/a.flac","duration":0.25,"text":"hello"})"},
       Source{
           "cv", "common-voice",
           R"({"audio_filepath":"cv/clips/a.mp3","duration":1.0,"lang":"en","speaker":"me","text":"hello"})"},
       Source{"lj", "ljspeech",
              R"({"audio_filepath":"lj/wavs/LJ-1.wav","duration":0.25,"text":"number one"})"},
       Source{
           "ls", "librispeech",
           R"({"audio_filepath":"ls/84/1/84-1-0000.flac","duration":0.25,"speaker":"84","text":"HELLO"})"},
       Source{
           "kaldi", "kaldi",
           R"({"audio_filepath":"kaldi/a.wav","duration":0.1,"offset":0.05,"speaker":"anna","text":"hello"})"},
       Source{"nemo/m.json", "nemo-tarred",
              R"({"audio_filepath":"nemo/audio_3.tar:a.wav","duration":0.25,"text":"hello"})"}}) {
    const json result = import_json(source.path);
    EXPECT_EQ(result.at("source"), source.name);
    EXPECT_EQ(result.at("left_out"), 0) << result.dump();
    EXPECT_EQ(lines("all.jsonl").at(0).dump(), source.line);
    // And named, it is the same.
    EXPECT_EQ(import_json(source.path, {"--from", source.name}).at("utterances"),
              result.at("utterances"));
  }
}

TEST_F(DataCommand, ImportReportsWhatItSkipped) {
  recordings("f", 3);
  folder_.write("f/0001.wav", "this is no audio");
  fs::remove(at("f/0002.txt"));
  const CommandResult result = run_sotto({"data", "import", at("f"), "--out", at("out/all.jsonl")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.out,
               "out/all.jsonl: 1 utterances, 250 ms of audio, from folder\n2 skipped:\n");
  EXPECT_PRED2(contains, result.out, "no .txt or .lab with the same name");
  EXPECT_PRED2(contains, result.out, "Expected audio in WAV, FLAC, OGG or MP3.\n");
  EXPECT_EQ(lines("out/all.jsonl").at(0).at("audio_filepath"), "../f/0000.wav");
  const CommandResult strict =
      run_sotto({"data", "import", at("f"), "--out", at("strict.jsonl"), "--broken", "error"});
  EXPECT_EQ(strict.exit_code, 2);
  EXPECT_PRED2(contains, strict.err, "f/0002.wav: no .txt or .lab with the same name");
  EXPECT_FALSE(fs::exists(at("strict.jsonl")));
  EXPECT_EQ(run_sotto({"data", "import", at("f"), "--from", "tapes"}).exit_code, 2);
  const CommandResult column = run_sotto({"data", "import", at("f"), "--text-column", "t"});
  EXPECT_EQ(column.exit_code, 2);
  EXPECT_PRED2(contains, column.err, "Expected that only with --from table");
}

TEST_F(DataCommand, KilledImportResumes) {
  constexpr int kCount = 4'000;
  recordings("f", kCount);
  const fs::path side = at(".all.jsonl.durations");
  const auto is_underway = [&] {
    std::error_code ignored;
    return fs::exists(side, ignored) && fs::file_size(side, ignored) > 2'000;
  };
  const int code = test::run_sotto_and_signal({"data", "import", at("f"), "--out", at("all.jsonl")},
                                              SIGKILL, is_underway);
  ASSERT_EQ(code, -SIGKILL);
  EXPECT_FALSE(fs::exists(at("all.jsonl")));
  const json result = import_json("f");
  EXPECT_EQ(result.at("utterances"), kCount);
  EXPECT_GT(result.at("headers_resumed"), 10);
  EXPECT_EQ(result.at("headers_resumed").get<int>() + result.at("headers_read").get<int>(), kCount);
  EXPECT_FALSE(fs::exists(side));
  const std::string resumed = content_of(at("all.jsonl"));
  EXPECT_EQ(import_json("f").at("headers_resumed"), 0);
  EXPECT_EQ(content_of(at("all.jsonl")), resumed);
}

TEST_F(DataCommand, ImportsAndSplitsATable) {
  sound("a.wav");
  std::string table = "file,text,speaker\n";
  for (int i = 0; i < 40; ++i) {
    const std::string name = fmt::format("wavs/{}.wav", i);
    fs::create_directories(at("wavs"));
    fs::copy_file(at("a.wav"), at(name));
    table += fmt::format("{},\"line, {}\",s{}\n", name, i, i % 8);
  }
  folder_.write("list.csv", table);
  import_json("list.csv");
  const std::vector<std::string> words = {"data",   "split", at("all.jsonl"), "--dev",   "12.5%",
                                          "--test", "10",    "--by",          "speaker", "--seed",
                                          "4",      "--out", at("parts")};
  const CommandResult result = run_sotto(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "split by speaker\n");
  EXPECT_EQ(lines("parts/train.jsonl").size(), 25u);
  EXPECT_EQ(lines("parts/dev.jsonl").size(), 5u);
  EXPECT_EQ(lines("parts/test.jsonl").size(), 10u);
  const json line = lines("parts/dev.jsonl").at(0);
  EXPECT_TRUE(fs::exists(at("parts") / fs::path(line.at("audio_filepath").get<std::string>())));
  const std::string dev = content_of(at("parts/dev.jsonl"));
  const CommandResult refused = run_sotto(words);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "parts/train.jsonl, ");
  std::vector<std::string> again = words;
  again.back() = at("again");
  again.emplace_back("--json");
  const json summary = json::parse(run_sotto(again).out);
  EXPECT_EQ(content_of(at("again/dev.jsonl")), dev);
  EXPECT_EQ(summary.at("parts").at(2).at("speakers"), 2);
  EXPECT_EQ(summary.at("by"), "speaker");
  const CommandResult alone =
      run_sotto({"data", "split", at("parts/dev.jsonl"), "--by", "speaker", "--out", at("more")});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_PRED2(contains, alone.err,
               "1 speaker for 3 parts. Expected at least one per part. --by random");
}

TEST_F(DataCommand, ImportNamesTheNextStep) {
  recordings("rec", 2);
  const CommandResult result =
      run_sotto({"data", "import", at("rec"), "--out", at("some/where/all.jsonl")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.ends_with("\nNext: sotto data check " + at("some/where/all.jsonl") + "\n"))
      << result.out;
}

TEST_F(DataCommand, HelpHasExamples) {
  for (const char* command : {"import", "split"}) {
    const CommandResult result = run_sotto({"data", command, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_PRED2(contains, result.out, fmt::format("Example:\n  sotto data {} ", command));
  }
}

}  // namespace
}  // namespace sotto::data
