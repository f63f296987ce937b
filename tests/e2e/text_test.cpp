// `sotto tokenizer`, `data text` and `data fetch` as a user meets them.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "sotto/core/build_info.h"
#include "support/local_server.h"
#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void expect_refusal(const CommandResult& result, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts) EXPECT_PRED2(contains, result.err, part);
}

bool has_sentence_piece() {
  return !contains(build_info().text, "no SentencePiece");
}

std::string word_of(int number) {
  const std::vector<std::string> syllables = {"ba", "ce", "di", "fo", "gu", "ka", "le", "mi"};
  return syllables[static_cast<size_t>(number % 8)] +
         syllables[static_cast<size_t>(number / 8 % 8)] +
         syllables[static_cast<size_t>(number * 5 % 8)];
}

std::string sentences(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += word_of(i) + " " + word_of(3 * i + 1) + ", " + word_of(7 * i) + "\n";
  return text;
}

class TextCommands : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return (folder_.path() / name).string(); }
  TempFolder folder_;
};

TEST_F(TextCommands, TrainingDoesNotOverwriteItsInput) {
  for (const std::string name : {"a.model", "a.json"}) {
    folder_.write(name, sentences(300));
    const std::string type = name == "a.json" ? "char" : "bpe";
    const CommandResult refused =
        run_sotto({"tokenizer", "train", in(name), "--type", type, "--out", in(name)});
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_PRED2(contains, refused.err, "the input file itself");
    EXPECT_EQ(content_of(folder_.path() / name), sentences(300));
  }
}

TEST_F(TextCommands, TrainEncodeAndDecodeWithPieces) {
  if (!has_sentence_piece()) GTEST_SKIP() << "this build has no SentencePiece";
  folder_.write("a.txt", sentences(300));
  for (const std::string type : {"bpe", "unigram"}) {
    const CommandResult trained =
        run_sotto({"tokenizer", "train", in("a.txt"), "--type", type, "--size", "60", "--out",
                   in(type + ".model"), "--json"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    EXPECT_EQ(trained.err, "");  // nothing of the library's own
    const json summary = json::parse(trained.out);
    EXPECT_EQ(summary["size"], 60);
    EXPECT_EQ(summary["texts"], 300);
    const CommandResult encoded = run_sotto(
        {"tokenizer", "encode", "--tokenizer", in(type + ".model"), "bacedi lemi", "kafogu"});
    ASSERT_EQ(encoded.exit_code, 0) << encoded.err;
    const std::string first = encoded.out.substr(0, encoded.out.find('\n'));
    const CommandResult decoded =
        run_sotto({"tokenizer", "decode", "--tokenizer", in(type + ".model"), first});
    EXPECT_EQ(decoded.out, "bacedi lemi\n");
  }
  const CommandResult again =
      run_sotto({"tokenizer", "train", in("a.txt"), "--size", "60", "--out", in("again.model")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(content_of(in("again.model")), content_of(in("bpe.model")));
  EXPECT_PRED2(contains, again.out, "again.model: 60 entries (bpe), of 300 texts");
}

TEST_F(TextCommands, TrainCharactersFromManifestWithTextRules) {
  folder_.write("a.jsonl",
                "{\"audio_filepath\": \"a.wav\", \"duration\": 1, \"text\": \"Cab, BAD!\"}\n");
  const CommandResult trained =
      run_sotto({"tokenizer", "train", in("a.jsonl"), "--type", "char", "--case", "lower",
                 "--punctuation", "remove", "--out", in("deep/vocab.json")});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(json::parse(content_of(in("deep/vocab.json"))),
            json::parse(R"({"<pad>": 0, "|": 1, "a": 2, "b": 3, "c": 4, "d": 5})"));
  const CommandResult encoded = run_sotto(
      {"tokenizer", "encode", "--tokenizer", in("deep"), "--case", "lower", "--json", "A Bz"});
  EXPECT_EQ(json::parse(encoded.out),
            json::parse(R"({"text": "a bz", "labels": [2, 1, 3], "unknown": ["z"]})"));
}

TEST_F(TextCommands, ReportTokenizerErrors) {
  folder_.write("a.txt", "a b c\n");
  folder_.write("vocab.json", R"({"<pad>": 0, "|": 1, "a": 2})");
  const auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"tokenizer", "train", in("a.txt"), "--out"};
    words.insert(words.end(), more.begin(), more.end());
    return run_sotto(words);
  };
  expect_refusal(train({in("a.json")}), {"--out", "a name that ends in .model"});
  expect_refusal(train({in("a.model"), "--type", "char"}), {"a name that ends in .json"});
  expect_refusal(train({in("a.json"), "--type", "char", "--size", "9"}), {"none of them"});
  expect_refusal(train({in("a.model"), "--keep-characters", "-"}), {"keep_characters"});
  expect_refusal(run_sotto({"tokenizer", "train", in("no.txt"), "--out", in("a.model")}),
                 {"no.txt", "No such file"});
  expect_refusal(run_sotto({"tokenizer", "decode", "--tokenizer", in("vocab.json"), "1 3"}),
                 {"'1 3'", "numbers from 0 to 2"});
  expect_refusal(run_sotto({"tokenizer", "encode", "--tokenizer", in("no.model"), "a"}),
                 {"no.model"});
  if (has_sentence_piece())
    expect_refusal(train({in("a.model"), "--size", "5000"}), {"5000 pieces"});
  for (const char* command : {"train", "encode", "decode"})
    EXPECT_PRED2(contains, run_sotto({"tokenizer", command, "--help"}).out, "Example:");
}

TEST_F(TextCommands, SplitText) {
  folder_.write("a.txt", sentences(500));
  const CommandResult result =
      run_sotto({"data", "text", in("a.txt"), "--documents", "line", "--out", in("out"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json split = json::parse(result.out);
  int64_t bytes = 0;
  for (const char* part : {"train", "dev", "test"}) {
    bytes += split[part]["bytes"].get<int64_t>();
    EXPECT_TRUE(fs::exists(split[part]["file"].get<std::string>()));
  }
  EXPECT_EQ(bytes, std::ssize(sentences(500)));
  expect_refusal(run_sotto({"data", "text", in("a.txt"), "--out", in("out")}),
                 {"it exists and is not an empty folder"});
  expect_refusal(run_sotto({"data", "text", in("a.txt"), "--out", in("other")}),
                 {"none of 1 document.", "--documents line"});
  expect_refusal(run_sotto({"data", "text", in("a.txt"), "--out", in("other"), "--dev", "0.1"}),
                 {"--dev 0.1", "0% to below 100%"});
  folder_.write("a.jsonl", "{\"text\": \"a\"}\n");
  expect_refusal(
      run_sotto({"data", "text", in("a.jsonl"), "--out", in("other"), "--documents", "line"}),
      {"each line of JSON is a document"});
}

TEST_F(TextCommands, ListPublicCorpora) {
  const CommandResult text = run_sotto({"data", "fetch", "--list"});
  EXPECT_EQ(text.exit_code, 0);
  const CommandResult result = run_sotto({"data", "fetch", "--list", "--json"});
  std::set<std::string> names;
  const json list = json::parse(result.out);
  for (const json& corpus : list.at("corpora")) {
    names.insert(corpus["name"]);
    for (const char* key : {"what", "amount", "size", "licence", "page", "import"})
      EXPECT_NE(corpus[key], "") << corpus["name"] << " " << key;
    EXPECT_NE(corpus["files"].empty(), corpus["steps"] == "") << corpus["name"];
    EXPECT_PRED2(contains, text.out, corpus["page"].get<std::string>());
  }
  for (const char* name :
       {"librispeech", "common-voice", "ljspeech", "an4", "fsdd", "mls", "voxpopuli", "fleurs",
        "tedlium3", "aishell-1", "wikitext-103", "wolne-lektury"})
    EXPECT_TRUE(names.contains(name)) << name;
  expect_refusal(run_sotto({"data", "fetch", "librispech", "--out", in("x")}),
                 {"Did you mean 'librispeech'?"});
  expect_refusal(run_sotto({"data", "fetch", "common-voice", "--out", in("x")}),
                 {"commonvoice.mozilla.org"});
  expect_refusal(run_sotto({"data", "fetch", "librispeech"}), {"--out"});
}

class Fetch : public TextCommands {
 protected:
  void SetUp() override {
    if (run_command({"/bin/sh", "-c", "command -v python3 curl tar"}).exit_code != 0)
      GTEST_SKIP() << "python3, curl or tar is not there";
    fs::create_directories(folder_.path() / "served");
    server_.emplace(folder_.path() / "served");
  }
  CommandResult fetch(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"data", "fetch", server_->address() + name, "--out",
                                      in("got")};
    words.insert(words.end(), more.begin(), more.end());
    return run_sotto(words);
  }
  std::optional<LocalServer> server_;
};

// Of "hello\n", by sha256sum.
constexpr const char* kHelloSum =
    "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

TEST_F(Fetch, DownloadsAndVerifies) {
  folder_.write("served/hello.txt", "hello\n");
  const CommandResult result = fetch("hello.txt", {"--sha256", kHelloSum, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["files"][0]["bytes"], 6);
  EXPECT_EQ(content_of(in("got/hello.txt")), "hello\n");
  EXPECT_FALSE(fs::exists(in("got/hello.txt.part")));
  // What is there is not loaded again.
  folder_.write("served/hello.txt", "other\n");
  ASSERT_EQ(fetch("hello.txt").exit_code, 0);
  EXPECT_EQ(content_of(in("got/hello.txt")), "hello\n");
}

TEST_F(Fetch, ResumesPartialDownload) {
  folder_.write("served/big.bin", std::string(1000, 'a') + std::string(1000, 'b'));
  // Other bytes than the server's show which were loaded.
  folder_.write("got/big.bin.part", std::string(1000, 'x'));
  ASSERT_EQ(fetch("big.bin").exit_code, 0);
  EXPECT_EQ(content_of(in("got/big.bin")), std::string(1000, 'x') + std::string(1000, 'b'));
  EXPECT_EQ(server_->ranges(), std::vector<std::string>{"bytes=1000-"});
}

TEST_F(Fetch, StartsOverIfPartCannotBeResumed) {
  const std::string whole(2000, 'a');
  folder_.write("served/noranges.bin", whole);
  folder_.write("got/noranges.bin.part", std::string(1000, 'x'));
  const CommandResult result = fetch("noranges.bin");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(content_of(in("got/noranges.bin")), whole);
  // Longer than the file: the server has nothing behind it.
  folder_.write("served/long.bin", whole);
  folder_.write("got/long.bin.part", std::string(3000, 'x'));
  ASSERT_EQ(fetch("long.bin").exit_code, 0);
  EXPECT_EQ(content_of(in("got/long.bin")), whole);
}

TEST_F(Fetch, Unpacks) {
  folder_.write("served/inside/a.txt", "one");
  ASSERT_EQ(run_command({"/bin/sh", "-c", "cd '" + in("served") + "' && tar czf a.tar.gz inside"})
                .exit_code,
            0);
  ASSERT_EQ(fetch("a.tar.gz", {"--unpack"}).exit_code, 0);
  EXPECT_EQ(content_of(in("got/inside/a.txt")), "one");
  folder_.write("served/b.tar", "not an archive");
  expect_refusal(fetch("b.tar", {"--unpack"}), {"unpacking", "tar says"});
  folder_.write("served/c.wav", "sound");
  expect_refusal(fetch("c.wav", {"--unpack"}), {"a file that is not an archive"});
}

TEST_F(Fetch, ReportsErrors) {
  folder_.write("served/hello.txt", "hello!\n");
  expect_refusal(fetch("hello.txt", {"--sha256", kHelloSum}),
                 {std::string("Expected the checksum ") + kHelloSum, "removed"});
  EXPECT_FALSE(fs::exists(in("got/hello.txt")));
  EXPECT_FALSE(fs::exists(in("got/hello.txt.part")));
  expect_refusal(fetch("hello.txt", {"--sha256", "12"}), {"64 hexadecimal digits"});
  expect_refusal(fetch("missing.txt"), {"the server refused", "404"});
  EXPECT_FALSE(fs::exists(in("got/missing.txt")));
  expect_refusal(fetch(""), {"the address of a file"});
  expect_refusal(run_sotto({"data", "fetch", "http://127.0.0.1:9/a.txt", "--out", in("got")}),
                 {"no connection"});
  folder_.write("file", "");
  expect_refusal(
      run_sotto({"data", "fetch", server_->address() + "hello.txt", "--out", in("file/below")}),
      {"Name another with --out"});
}

// No file may grow beyond 4 KiB, which looks like a full disk to curl.
TEST_F(Fetch, ReportsFullDisk) {
  folder_.write("served/big.bin", std::string(200'000, 'a'));
  const CommandResult result =
      run_command({"bash", "-c",
                   "trap '' XFSZ; ulimit -f 4; \"$SOTTO_BINARY\" data fetch " + server_->address() +
                       "big.bin --out " + in("got")});
  expect_refusal(result, {"cannot be written", "a writable folder with free space"});
  EXPECT_FALSE(fs::exists(in("got/big.bin")));
  // What was loaded is not lost.
  ASSERT_EQ(fetch("big.bin").exit_code, 0);
  EXPECT_EQ(content_of(in("got/big.bin")), std::string(200'000, 'a'));
}

}  // namespace
}  // namespace sotto::test
