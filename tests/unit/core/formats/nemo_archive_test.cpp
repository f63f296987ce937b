#include "sotto/core/formats/nemo_archive.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "sotto/core/config/config_yaml.h"
#include "sotto/core/config/yaml_json.h"
#include "sotto/core/error.h"
#include "sotto/core/formats/gzip.h"
#include "sotto/core/formats/nemo_writer.h"
#include "support/gzip_bytes.h"
#include "support/reader_samples.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::gzip_of;
using test::message_of;
using test::tar_end;
using test::tar_file;
using test::TempFolder;

const std::string kGoodConfig = "encoder: {d_model: 16}\n";

std::string refusal_of_archive(const std::string& content) {
  const TempFolder folder;
  const auto path = folder.write("a.nemo", content);
  const std::string message = message_of<DataError>([&] { NemoArchive::open(path); });
  EXPECT_PRED2(contains, message, path.string());
  return message;
}

std::string config_member(const std::string& name = "./model_config.yaml") {
  return tar_file({.name = name}, kGoodConfig);
}
std::string weights_member(const std::string& name = "./model_weights.ckpt") {
  return tar_file({.name = name}, "PK");
}

TEST(NemoArchive, FindsItsPartsAloneAndAfterAHash) {
  const TempFolder folder;
  for (const std::string hash : {"", "0a1b_"}) {
    const std::string content = tar_file({.name = "./", .type = '5'}, "") +
                                config_member("./" + hash + "model_config.yaml") +
                                tar_file({.name = "9f_tokenizer.model"}, "pieces") +
                                weights_member(hash + "model_weights.ckpt") + tar_end();
    for (const bool is_packed : {false, true}) {
      const auto path = folder.write("a.nemo", is_packed ? gzip_of(content) : content);
      const NemoArchive archive = NemoArchive::open(path);
      EXPECT_EQ(archive.was_compressed(), is_packed);
      EXPECT_EQ(archive.parts().config, kGoodConfig);
      EXPECT_EQ(archive.parts().weights.size(), 2U);
      EXPECT_EQ(archive.sentence_piece("nemo:9f_tokenizer.model"), "pieces");
      // The settings of an archive that was renamed name another file.
      EXPECT_EQ(archive.sentence_piece("tokenizer.model"), "pieces");
      EXPECT_EQ(nemo_settings(archive.parts(), path)["encoder"]["d_model"], 16);
    }
  }
}

TEST(NemoArchive, MissingPartsAreNamedWithWhatIsThere) {
  EXPECT_PRED2(contains, refusal_of_archive(weights_member() + tar_end()), "no model_config.yaml");
  const std::string message =
      refusal_of_archive(config_member() + tar_file({.name = "a.txt"}, "") + tar_end());
  EXPECT_PRED2(contains, message, "no model_weights.ckpt in it, but a.txt");
  EXPECT_PRED2(contains, refusal_of_archive(""), "it is empty");
  EXPECT_PRED2(contains, refusal_of_archive("not a tar archive"), "archive");
}

TEST(NemoArchive, TwoOfAKindAreRefused) {
  EXPECT_PRED2(contains,
               refusal_of_archive(config_member() + config_member("b_model_config.yaml") +
                                  weights_member() + tar_end()),
               "a second 'b_model_config.yaml'");
  EXPECT_PRED2(
      contains,
      refusal_of_archive(config_member() + weights_member() + weights_member() + tar_end()),
      "a second 'model_weights.ckpt'");
  const std::string file = tar_file({.name = "x.vocab"}, "");
  EXPECT_PRED2(contains,
               refusal_of_archive(config_member() + weights_member() + file + file + tar_end()),
               "a second 'x.vocab'");
}

TEST(NemoArchive, NamesThatLeaveItAreRefused) {
  for (const std::string name : {"../model_config.yaml", "a/../../b.txt", "/etc/passwd"})
    EXPECT_PRED2(contains,
                 refusal_of_archive(config_member() + weights_member() +
                                    tar_file({.name = name}, "") + tar_end()),
                 "'" + name + "' outside of the archive");
}

TEST(NemoArchive, NamesThatWouldSteerATerminalAreRefused) {
  const std::string message = refusal_of_archive(
      config_member() + tar_file({.name = "\x1b[31m.model"}, "") + weights_member() + tar_end());
  EXPECT_PRED2(contains, message, "control characters");
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST(NemoArchive, TruncatedAndDamagedOnesAreRefused) {
  const std::string good = config_member() + weights_member() + tar_end();
  EXPECT_PRED2(contains, refusal_of_archive(good.substr(0, 600)), "no model_weights.ckpt");
  EXPECT_PRED2(contains, refusal_of_archive(good.substr(0, 520)), "ends after 520 bytes");
  const std::string packed = gzip_of(good);
  EXPECT_PRED2(contains, refusal_of_archive(packed.substr(0, packed.size() / 2)), "truncated");
  std::string damaged = packed;
  damaged[packed.size() / 2] = static_cast<char>(damaged[packed.size() / 2] ^ 0x55);
  EXPECT_PRED2(contains, refusal_of_archive(damaged), "compressed archive is");
  damaged = packed;
  damaged[packed.size() - 6] = static_cast<char>(damaged[packed.size() - 6] ^ 1);
  EXPECT_PRED2(contains, refusal_of_archive(damaged), "damaged");
}

// A megabyte that becomes a gigabyte.
TEST(NemoArchive, HugeContentOfASmallFileIsRefused) {
  const std::string bomb =
      gzip_of(tar_file({.name = "model_weights.ckpt"}, std::string(size_t{100} << 20, '\0')));
  EXPECT_LT(bomb.size(), size_t{1} << 20);
  const std::string message = refusal_of_archive(bomb);
  EXPECT_PRED2(contains, message, "of compressed data become more than");
}

TEST(NemoArchive, TheFolderForUnpackingCanBeChosen) {
  const TempFolder folder;
  const auto path = folder.write("a.nemo", gzip_of(config_member() + weights_member() + tar_end()));
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", (folder.path() / "missing").c_str(), 1);
  const std::string message = message_of<DataError>([&] { NemoArchive::open(path); });
  EXPECT_PRED2(contains, message, (folder.path() / "missing").string());
  EXPECT_PRED2(contains, message, "Set TMPDIR");
  setenv("TMPDIR", folder.path().c_str(), 1);
  NemoArchive::open(path);
  // Nothing is left beside it.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
}

TEST(NemoArchive, TokenizersMustBeUnambiguous) {
  const TempFolder folder;
  const std::string parts = config_member() + weights_member();
  NemoArchive none = NemoArchive::open(folder.write("none.nemo", parts + tar_end()));
  EXPECT_PRED2(contains, message_of<DataError>([&] { none.sentence_piece(""); }),
               "no tokenizer.model");
  NemoArchive two = NemoArchive::open(folder.write(
      "two.nemo",
      parts + tar_file({.name = "a.model"}, "a") + tar_file({.name = "b.model"}, "b") + tar_end()));
  EXPECT_PRED2(contains, message_of<DataError>([&] { two.sentence_piece(""); }),
               "several tokenizers: a.model, b.model");
  EXPECT_EQ(two.sentence_piece("nemo:b.model"), "b");
}

TEST(NemoWriter, WritesWhatIsReadBack) {
  const TempFolder folder;
  const std::vector<float> values = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  const int64_t count = 7;
  const auto bytes = std::as_bytes(std::span(values));
  const std::vector<SafetensorsEntry> entries = {
      {.name = "b.weight", .type = TensorType::kFloat32, .shape = {2, 3}, .bytes = bytes},
      {.name = "a", .type = TensorType::kBFloat16, .shape = {5}, .bytes = bytes.first(10)},
      {.name = "empty", .type = TensorType::kFloat16, .shape = {0, 3}, .bytes = {}},
      {.name = "count",
       .type = TensorType::kInt64,
       .shape = {},
       .bytes = std::as_bytes(std::span(&count, 1))}};
  const NemoContent content{
      .config = kGoodConfig, .members = {{"9f_tokenizer.model", "pieces"}}, .weights = entries};
  const auto path = folder.path() / "out.nemo";
  write_nemo_archive(path, content);
  NemoArchive archive = NemoArchive::open(path);
  EXPECT_EQ(archive.parts().config, kGoodConfig);
  EXPECT_EQ(archive.sentence_piece("nemo:9f_tokenizer.model"), "pieces");
  const TorchFile weights = archive.take_weights();
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b.weight", "count", "empty"}));
  for (const SafetensorsEntry& entry : entries) {
    const TensorView* view = weights.find(entry.name);
    ASSERT_NE(view, nullptr) << entry.name;
    EXPECT_EQ(view->type, entry.type);
    EXPECT_EQ(view->shape, entry.shape);
    EXPECT_TRUE(std::ranges::equal(view->bytes, entry.bytes)) << entry.name;
    // As torch.save aligns them, in the archive too.
    if (!view->bytes.empty()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(view->bytes.data()) % 64, 0U) << entry.name;
    }
  }
  const std::string first = test::content_of(path);
  write_nemo_archive(path, content);
  EXPECT_EQ(test::content_of(path), first);
}

TEST(NemoWriter, LeavesAnExistingFileWhereItFails) {
  const TempFolder folder;
  const auto path = folder.write("out.nemo", "before");
  const std::string value(8, 'v');
  const std::vector<SafetensorsEntry> entries = {{.name = "a",
                                                  .type = TensorType::kInt64,
                                                  .shape = {},
                                                  .bytes = std::as_bytes(std::span(value))}};
  const auto fails = [](std::span<const std::byte>) -> std::span<const std::byte> {
    throw DataError({.attempted = "reading a device", .found = "nothing"});
  };
  EXPECT_THROW(
      write_nemo_archive(path, {.config = "", .members = {}, .weights = entries, .fetch = fails}),
      DataError);
  EXPECT_EQ(test::content_of(path), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(YamlJson, WordsAreValuesAsYamlReadsThem) {
  const nlohmann::json values = json_of_yaml(parse_yaml(
      "{a: 1, b: -2.5, c: 1e-05, d: true, e: null, f: ~, g: '1', h: word, i: [-1, x], j: , k: inf, "
      "l: False}",
      "a.yaml"));
  EXPECT_EQ(values, nlohmann::json::parse(R"({"a": 1, "b": -2.5, "c": 1e-05, "d": true, "e": null,
      "f": null, "g": "1", "h": "word", "i": [-1, "x"], "j": null, "k": "inf", "l": false})"));
}

}  // namespace
}  // namespace sotto
