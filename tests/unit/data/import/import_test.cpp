// Each source with its ways to be broken. Durations stand in the lists or are read from audio that
// the tests make.
#include "sotto/data/import/import.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/manifest/manifest.h"
#include "support/full_disk.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "unit/data/audio/sound_file.h"

namespace sotto::data {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::content_of;
using test::message_of;
using test::TempFolder;

class Import : public testing::Test {
 protected:
  void sound(const fs::path& name, double seconds = 0.25) const {
    fs::create_directories((folder_.path() / name).parent_path());
    write_sound(folder_.path() / name, tone(seconds));
  }

  fs::path out() const { return folder_.path() / "all.jsonl"; }

  ImportResult import(const fs::path& source, ImportOptions options = {}) {
    options.out = out();
    result_ = import_corpus(folder_.path() / source, options);
    return result_;
  }

  // What the last import wrote, a line an utterance: "file offset duration text speaker lang".
  std::string utterances() const {
    const Manifest manifest = Manifest::read(out());
    std::string text;
    for (int64_t u = 0; u < manifest.size(); ++u) {
      const Utterance& line = manifest.at(u);
      text += fmt::format("{} {} {} [{}] {} {}\n", line.file, line.offset_s.value_or(-1),
                          line.duration_s, line.text, line.speaker, line.lang);
    }
    return text;
  }

  std::string problems() const {
    std::string text;
    for (const ImportProblem& problem : result_.problems)
      text += problem.location + ": " + problem.found + "\n";
    const std::string folder = folder_.path().string() + "/";
    for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
      text.erase(at, folder.size());
    return text;
  }

  TempFolder folder_;
  ImportResult result_;
};

TEST_F(Import, FolderWithTranscripts) {
  sound("f/b.wav", 0.5);
  folder_.write("f/b.txt", "two\n words \xC3\xB6\n");
  sound("f/deep/a.flac");
  folder_.write("f/deep/a.lab", "one");
  sound("f/empty.wav");
  folder_.write("f/empty.txt", "");
  sound("f/lonely.wav");
  folder_.write("f/film.mp4", "x");
  folder_.write("f/text.wav", "no audio");
  folder_.write("f/text.txt", "t");
  folder_.write("f/readme.md", "not audio");
  sound("f/old.wav");
  folder_.write("f/old.txt", "caf\xE9");
  import("f");
  EXPECT_EQ(result_.source, ImportSource::kFolder);
  EXPECT_EQ(utterances(),
            "f/b.wav -1 0.5 [two words ö]  \n"
            "f/deep/a.flac -1 0.25 [one]  \n"
            "f/empty.wav -1 0.25 []  \n");
  EXPECT_EQ(result_.num_utterances, 3);
  EXPECT_DOUBLE_EQ(result_.audio_seconds, 1.0);
  EXPECT_PRED2(contains, problems(),
               "f/film.mp4: .mp4 files are not supported; convert it: ffmpeg -i ");
  EXPECT_PRED2(contains, problems(), "f/lonely.wav: no .txt or .lab with the same name\n");
  EXPECT_PRED2(contains, problems(), "f/text.wav: reading f/text.wav: libsndfile says");
  EXPECT_PRED2(contains, problems(), "f/old.wav: reading f/old.txt: it is not UTF-8");
  EXPECT_EQ(result_.problems.size(), 4u);
}

TEST_F(Import, TableWithNamedColumns) {
  sound("t/wavs/a.wav", 0.5);
  sound("t/wavs/b.wav");
  folder_.write("t/list.csv",
                "\xEF\xBB\xBFTranscript,Speaker_ID,note,Path\r\n"
                "\"Hello, you\",anna,x,wavs/a.wav\r\n"
                "broken row\r\n"
                "gone,ben,,wavs/gone.wav\r\n"
                ",ben,,wavs/b.wav\r\n"
                "again,ben,,wavs/b.wav\r\n"
                "none,ben,,\r\n");
  import("t/list.csv");
  EXPECT_EQ(result_.source, ImportSource::kTable);
  EXPECT_EQ(utterances(),
            "t/wavs/a.wav -1 0.5 [Hello, you] anna \n"
            "t/wavs/b.wav -1 0.25 [] ben \n");
  EXPECT_EQ(problems(),
            "list.csv line 3: 1 fields, expected 4 as in the first row\n"
            "list.csv line 7: no audio named\n"
            "list.csv line 6: the same audio as list.csv line 5: t/wavs/b.wav\n"
            "list.csv line 4: t/wavs/gone.wav: No such file or directory\n");
}

// Nothing is decoded; only the existence of the file is checked.
TEST_F(Import, TableWithDurations) {
  folder_.write("audio/a.wav", "is not looked into");
  folder_.write("list.tsv",
                "start\tduration\tmy text\tfile\tlocale\n"
                "0.5\t1.25\tone\ta.wav\tpl\n"
                "2\t1\ttwo\ta.wav\tpl\n"
                "x\t1\tthree\ta.wav\tpl\n"
                "1\t-1\tfour\ta.wav\tpl\n"
                "\t9\tfive\ta.wav\tpl\n");
  import("list.tsv", {.columns = {.text = "my text"}, .audio_root = folder_.path() / "audio"});
  EXPECT_EQ(utterances(),
            "audio/a.wav 0.5 1.25 [one]  pl\n"
            "audio/a.wav 2 1 [two]  pl\n"
            "audio/a.wav -1 9 [five]  pl\n");
  EXPECT_EQ(problems(),
            "list.tsv line 4: offset 'x', expected seconds\n"
            "list.tsv line 5: duration '-1', expected seconds\n");
  EXPECT_EQ(result_.num_read, 0);
}

TEST_F(Import, TableWithMissingColumns) {
  const auto refusal = [&](const std::string& header, const TableColumns& columns = {}) {
    folder_.write("t.csv", header + "\n1,2\n");
    return message_of<ConfigError>([&] { import("t.csv", {.columns = columns}); });
  };
  EXPECT_PRED2(contains, refusal("path,said"),
               "t.csv: columns path, said. Expected one of text, sentence");
  EXPECT_PRED2(contains, refusal("path,said"), "Name another with --text-column.");
  EXPECT_PRED2(contains, refusal("a,text"), "Name another with --audio-column.");
  EXPECT_PRED2(contains, refusal("path,said", {.text = "siad"}),
               "no column 'siad'. Expected one of path, said. Did you mean 'said'?");
}

TEST_F(Import, CommonVoice) {
  sound("cv/clips/one.mp3", 1.0);
  sound("cv/clips/two.mp3", 1.0);
  folder_.write("cv/validated.tsv",
                "client_id\tpath\tsentence\tup_votes\tlocale\n"
                "abc\tone.mp3\t\"Stop\" he said\t2\tpl\n"
                "def\ttwo\tDwa\t2\tpl\n");
  folder_.write("cv/train.tsv",
                "client_id\tpath\tsentence\tup_votes\tlocale\n"
                "abc\tone.mp3\tJeden\t2\tpl\n");
  import("cv");
  EXPECT_EQ(result_.source, ImportSource::kCommonVoice);
  const std::string written = utterances();
  EXPECT_PRED2(contains, written, "cv/clips/one.mp3 -1 1");
  EXPECT_PRED2(contains, written, "[\"Stop\" he said] abc pl\n");
  EXPECT_PRED2(contains, written, "[Dwa] def pl\n");
  import("cv/train.tsv");
  EXPECT_EQ(result_.source, ImportSource::kCommonVoice);
  EXPECT_EQ(result_.num_utterances, 1);
}

TEST_F(Import, LjSpeech) {
  sound("lj/wavs/LJ001-0001.wav", 0.5);
  sound("lj/wavs/LJ001-0002.wav");
  sound("lj/wavs/LJ001-0003.wav");
  folder_.write("lj/metadata.csv",
                "LJ001-0001|In \"1465\", so|In fourteen sixty-five, so\n"
                "LJ001-0002|Only this|\n"
                "LJ001-0003|Two columns\n"
                "LJ001-0003|Twice|twice\n"
                "no bar here\n"
                "LJ001-0009|Gone|gone\n");
  import("lj");
  EXPECT_EQ(result_.source, ImportSource::kLjSpeech);
  EXPECT_EQ(utterances(),
            "lj/wavs/LJ001-0001.wav -1 0.5 [In fourteen sixty-five, so]  \n"
            "lj/wavs/LJ001-0002.wav -1 0.25 [Only this]  \n"
            "lj/wavs/LJ001-0003.wav -1 0.25 [Two columns]  \n");
  EXPECT_EQ(problems(),
            "metadata.csv line 5: no id|text\n"
            "metadata.csv line 4: the same audio as metadata.csv line 3: lj/wavs/LJ001-0003.wav\n"
            "metadata.csv line 6: lj/wavs/LJ001-0009.wav: No such file or directory\n");
}

TEST_F(Import, LibriSpeech) {
  sound("ls/dev/84/121123/84-121123-0000.flac", 0.5);
  sound("ls/dev/84/121123/84-121123-0001.flac");
  sound("ls/dev/17/5/17-5-0000.flac");
  folder_.write("ls/dev/84/121123/84-121123.trans.txt",
                "84-121123-0000 GO  DO YOU HEAR\n84-121123-0001 BUT\n84-121123-0002 GONE\n");
  folder_.write("ls/dev/17/5/17-5.trans.txt", "17-5-0000 YES\n17-5-0000 YES\n\n");
  import("ls");
  EXPECT_EQ(result_.source, ImportSource::kLibriSpeech);
  EXPECT_EQ(utterances(),
            "ls/dev/17/5/17-5-0000.flac -1 0.25 [YES] 17 \n"
            "ls/dev/84/121123/84-121123-0000.flac -1 0.5 [GO  DO YOU HEAR] 84 \n"
            "ls/dev/84/121123/84-121123-0001.flac -1 0.25 [BUT] 84 \n");
  EXPECT_EQ(result_.problems.size(), 2u);
  EXPECT_PRED2(contains, problems(), "84-121123-0002.flac: No such file");
  EXPECT_PRED2(contains, problems(), "the same audio as ls/dev/17/5/17-5-0000.flac");
}

TEST_F(Import, KaldiFolder) {
  sound("k/a.wav", 0.5);
  sound("k/b.flac");
  sound("k/c.wav");
  folder_.write("k/wav.scp",
                "a a.wav\nb flac -c -d -s b.flac |\nc /usr/bin/sox c.wav -r 16000 -t wav - |\n"
                "d sph2pipe -f wav -p -c 1 d.sph |\ne sox e.wav -t wav - speed 1.1 |\na b.flac\n");
  folder_.write("k/text", "a one two\nb\nc three\nd four\ne five\nf six\na again\n");
  folder_.write("k/utt2spk", "a anna\nb ben\n");
  folder_.write("k/utt2dur", "c 0.26\n");
  import("k");
  EXPECT_EQ(result_.source, ImportSource::kKaldi);
  EXPECT_EQ(utterances(),
            "k/a.wav -1 0.5 [one two] anna \n"
            "k/b.flac -1 0.25 [] ben \n"
            "k/c.wav -1 0.26 [three]  \n");
  EXPECT_EQ(problems(),
            "wav.scp line 6: duplicate id 'a'\n"
            "text line 4: audio from a command, which is not run; type 'sph2pipe -f wav -p -c 1 "
            "d.sph > d.wav' and name that file in wav.scp\n"
            "text line 5: audio from a command, which is not run; type 'sox e.wav -t wav - speed "
            "1.1 > e.wav' and name that file in wav.scp\n"
            "text line 6: 'f' is not in wav.scp\n"
            "text line 7: duplicate id 'a'\n");
}

TEST_F(Import, KaldiSegments) {
  sound("k/long.wav", 2.0);
  folder_.write("k/wav.scp", "rec long.wav\n");
  folder_.write("k/segments",
                "u1 rec 0.25 0.75\nu2 rec 1.5 -1\nu3 rec 1 0.5\nu4 rec 5 -1\nu5 rec\nu7 no 0 1\n");
  folder_.write("k/text", "u1 one\nu2 two\nu3 three\nu4 four\nu5 five\nu6 six\nu7 seven\n");
  import("k");
  EXPECT_EQ(utterances(),
            "k/long.wav 0.25 0.5 [one]  \n"
            "k/long.wav 1.5 0.5 [two]  \n");
  EXPECT_EQ(problems(),
            "text line 3: segment 'rec 1 0.5', expected a recording, a start and an end in "
            "seconds, and optionally a channel\n"
            "text line 5: segment 'rec', expected a recording, a start and an end in seconds, and "
            "optionally a channel\n"
            "text line 6: 'u6' is not in segments\n"
            "text line 7: 'no' is not in wav.scp\n"
            "text line 4: k/long.wav: it ends at 2.000 s, but the segment starts at 5 s\n");
}

// Segments with the same start may differ; with the same start and end they are the same audio.
TEST_F(Import, KaldiSegmentsWithTheSameStart) {
  sound("k/long.wav", 2.0);
  folder_.write("k/wav.scp", "rec long.wav\n");
  folder_.write("k/segments", "u1 rec 0.25 0.75\nu2 rec 0.25 1.25\nu3 rec 0.25 0.75\n");
  folder_.write("k/text", "u1 one\nu2 one two\nu3 one\n");
  import("k");
  EXPECT_EQ(utterances(),
            "k/long.wav 0.25 0.5 [one]  \n"
            "k/long.wav 0.25 1 [one two]  \n");
  EXPECT_EQ(problems(), "text line 3: the same audio as text line 1: k/long.wav\n");
}

// The fifth field of a line in segments.
TEST_F(Import, KaldiSegmentsWithAChannel) {
  sound("k/mono.wav", 1.0);
  write_sound(folder_.path() / "k/stereo.wav", tone(1.0, 2));
  folder_.write("k/wav.scp", "m mono.wav\ns stereo.wav\ng gone.wav\n");
  folder_.write("k/segments",
                "u1 m 0.25 0.75 0\nu2 m 0 0.5 1\nu3 s 0 0.5 1\nu4 s 0.5 1\nu5 m 0 0.5 A\n"
                "u6 m 0 0.5 0 0\nu7 g 0 0.5 0\nu8 m 0 0.5 1e300\n");
  folder_.write("k/text", "u1 1\nu2 2\nu3 3\nu4 4\nu5 5\nu6 6\nu7 7\nu8 8\n");
  import("k");
  EXPECT_EQ(utterances(),
            "k/mono.wav 0.25 0.5 [1]  \n"
            "k/stereo.wav 0.5 0.5 [4]  \n");
  const std::string found = problems();
  EXPECT_PRED2(
      contains, found,
      "text line 2: channel 1 of k/mono.wav, which has 1 (channels count from 0)\n"
      "text line 3: channel 1 of k/stereo.wav, which has 2 channels that would be averaged; type "
      "'sox k/stereo.wav s-1.wav remix 2' and name that file in wav.scp\n"
      "text line 5: segment 'm 0 0.5 A', expected a recording");
  EXPECT_PRED2(contains, found, "text line 6: segment 'm 0 0.5 0 0', expected a recording");
  EXPECT_PRED2(contains, found, "gone.wav: No such file");
  EXPECT_PRED2(contains, found, "text line 8: segment 'm 0 0.5 1e300', expected a recording");
}

class ImportTarred : public Import {
 protected:
  ImportTarred() {
    sound("a.wav", 1.0);
    const std::string wave = content_of(folder_.path() / "a.wav");
    for (int shard = 0; shard < 2; ++shard) {
      folder_.write(fmt::format("n/audio_{}.tar", shard),
                    test::tar_file({.name = fmt::format("x_{}.wav", shard)}, wave) +
                        test::tar_file({.name = "y.flac"}, wave) + test::tar_end());
    }
  }

  void manifest(const std::string& lines) const {
    folder_.write("n/tarred_audio_manifest.json", lines);
  }
};

TEST_F(ImportTarred, NamesFilesInsideArchives) {
  manifest(
      R"({"audio_filepath": "x_0.wav", "duration": 1.0, "text": "one", "shard_id": 0, "speaker": "s"})"
      "\n"
      R"({"audio_filepath": "x_1.wav", "duration": 0.5, "offset": 0.25, "text": "two", "shard_id": 1})"
      "\n"
      R"({"audio_filepath": "x_1-sub1.wav", "duration": 0.25, "offset": 0.75, "text": "sub", "shard_id": 1})"
      "\n"
      R"({"audio_filepath": "y.wav", "duration": null, "text": "codec", "shard_id": 1})"
      "\n"
      R"({"audio_filepath": "x_1.wav", "duration": 1, "text": "a", "shard_id": 0})"
      "\n"
      R"({"audio_filepath": "x_1.wav", "duration": 1, "text": "a", "shard_id": 2})"
      "\n"
      R"({"audio_filepath": "x_1.wav", "duration": 1, "text": "a"})"
      "\n[]\n"
      R"({"audio_filepath": "x_1.wav", "duration": -1, "text": "a", "shard_id": 1})"
      "\n");
  import("n/tarred_audio_manifest.json");
  EXPECT_EQ(result_.source, ImportSource::kNemoTarred);
  EXPECT_EQ(utterances(),
            "n/audio_0.tar:x_0.wav -1 1 [one] s \n"
            "n/audio_1.tar:x_1.wav 0.25 0.5 [two]  \n"
            "n/audio_1.tar:x_1.wav 0.75 0.25 [sub]  \n"
            "n/audio_1.tar:y.flac -1 1 [codec]  \n");
  EXPECT_EQ(problems(),
            "tarred_audio_manifest.json line 5: no file 'x_1.wav' in n/audio_0.tar\n"
            "tarred_audio_manifest.json line 6: reading n/audio_2.tar: No such file or directory. "
            "Expected a tar archive.\n"
            "tarred_audio_manifest.json line 7: no shard_id, and --tar names several archives\n"
            "tarred_audio_manifest.json line 8: not a JSON object\n"
            "tarred_audio_manifest.json line 9: duration is -1\n");
  // What was written can be read.
  const Manifest manifest = Manifest::read(out());
  const Utterance& utterance = manifest.at(1);
  EXPECT_EQ(
      read_audio({.path = manifest.path_of(utterance),
                  .offset_s = utterance.offset_s,
                  .duration_s = utterance.duration_s},
                 16'000),
      read_audio({.path = folder_.path() / "a.wav", .offset_s = 0.25, .duration_s = 0.5}, 16'000));
}

TEST_F(ImportTarred, AcceptsNemoPatterns) {
  manifest(R"({"audio_filepath": "x_1.wav", "duration": 1.0, "text": "one", "shard_id": 1})"
           "\n");
  for (const char* pattern : {"audio_{0..1}.tar", "audio__OP_0..1_CL_.tar", "audio_(0..7).tar",
                              "audio_[1..1].tar", "audio_<0..12>.tar", "audio_1.tar"}) {
    import("n/tarred_audio_manifest.json", {.tar = (folder_.path() / "n" / pattern).string()});
    EXPECT_EQ(utterances(), "n/audio_1.tar:x_1.wav -1 1 [one]  \n") << pattern;
  }
  for (const char* pattern : {"audio_{2..3}.tar", "audio_{0..0}.tar"}) {
    EXPECT_PRED2(contains, message_of<DataError>([&] {
                   import("n/tarred_audio_manifest.json", {.tar = pattern});
                 }),
                 "line 1: shard_id 1 is not in audio_{")
        << pattern;
  }
}

TEST_F(Import, ExplainsRefusedSources) {
  const auto refusal = [&](const fs::path& source) {
    return message_of<DataError>([&] { import(source); });
  };
  EXPECT_PRED2(contains, refusal("no"), "No such file or directory. Expected a folder of audio");
  fs::create_directories(folder_.path() / "empty");
  EXPECT_PRED2(contains, refusal("empty"), "it contains neither audio nor a list of audio files");
  folder_.write("m.jsonl", R"({"audio_filepath": "a.wav", "duration": 1, "text": ""})");
  EXPECT_PRED2(contains, refusal("m.jsonl"), "it is already a manifest");
  folder_.write("a.doc", "x");
  EXPECT_PRED2(contains, refusal("a.doc"), "a file that ends in '.doc'");
  fs::create_directories(folder_.path() / "cv/clips");
  EXPECT_PRED2(contains, refusal("cv"), "neither validated.tsv nor train.tsv");
}

TEST_F(Import, OptionOfAnotherSourceIsAnError) {
  sound("f/a.wav");
  folder_.write("f/a.txt", "a");
  const auto refusal = [&](const ImportOptions& options) {
    return message_of<ConfigError>([&] { import("f", options); });
  };
  EXPECT_PRED2(
      contains, refusal({.columns = {.text = "t"}}),
      "importing from folder: the name of a column, as in --audio-column. Expected that only with "
      "--from table");
  EXPECT_PRED2(contains, refusal({.audio_root = "x"}), "--audio-root");
  EXPECT_PRED2(contains, refusal({.tar = "x"}), "--tar");
}

TEST_F(Import, BrokenFilesStopItIfRequested) {
  sound("f/a.wav");
  folder_.write("f/a.txt", "a");
  folder_.write("f/b.wav", "no audio");
  folder_.write("f/b.txt", "b");
  EXPECT_PRED2(contains, message_of<DataError>([&] { import("f", {.broken = Policy::kError}); }),
               "--broken skip skips and lists them.");
  EXPECT_FALSE(fs::exists(out()));
  fs::remove(folder_.path() / "f/a.wav");
  EXPECT_PRED2(contains, message_of<DataError>([&] { import("f"); }),
               "Expected at least one usable utterance");
}

TEST_F(Import, WritesAFile) {
  sound("f/a.wav");
  folder_.write("f/a.txt", "a");
  for (const char* name : {"f", "f/", "new/"}) {
    EXPECT_PRED2(contains, message_of<ConfigError>([&] {
                   import_corpus(folder_.path() / "f", {.out = folder_.path() / name});
                 }),
                 "a folder. Expected the name of a manifest")
        << name;
  }
  // What a process that is no more left of it goes.
  folder_.write(".all.jsonl.partial-999999999", "half");
  import("f");
  EXPECT_FALSE(fs::exists(folder_.path() / ".all.jsonl.partial-999999999"));
}

// Durations from an unfinished import are reused if the files are unchanged.
TEST_F(Import, ResumesWhereItStopped) {
  for (int i = 0; i < 20; ++i) {
    sound(fmt::format("f/{:02}.wav", i), 0.25);
    folder_.write(fmt::format("f/{:02}.txt", i), "t");
  }
  folder_.write("f/bad.wav", "no audio");
  folder_.write("f/bad.txt", "t");
  const fs::path side = folder_.path() / ".all.jsonl.durations";
  EXPECT_THROW(import("f", {.broken = Policy::kError}), DataError);
  ASSERT_TRUE(fs::exists(side));
  // A line that was left half, one that is nonsense, and a file that became another.
  folder_.write(".all.jsonl.durations", content_of(side) + "1.0\tx\ty\tz\n\n9.5\t12");
  sound("f/07.wav", 0.75);
  import("f");
  EXPECT_EQ(result_.num_resumed, 19);
  EXPECT_EQ(result_.num_read, 1);
  EXPECT_DOUBLE_EQ(result_.audio_seconds, 19 * 0.25 + 0.75);
  EXPECT_FALSE(fs::exists(side));
}

TEST_F(Import, FullDisk) {
  for (int i = 0; i < 30; ++i) {
    sound(fmt::format("f/{:02}.wav", i), 0.01);
    folder_.write(fmt::format("f/{:02}.txt", i), "t");
  }
  folder_.write("all.jsonl", "{before");
  for (const size_t bytes : {100u, 1'500u}) {
    const test::FullDisk full(bytes);
    EXPECT_THROW(import("f"), DataError) << bytes;
  }
  EXPECT_EQ(content_of(out()), "{before");
  import("f");
  EXPECT_EQ(result_.num_utterances, 30);
}

}  // namespace
}  // namespace sotto::data
