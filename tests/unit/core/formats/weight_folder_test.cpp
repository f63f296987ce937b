#include "sotto/core/formats/weight_folder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "unit/core/formats/torch_bytes.h"

namespace sotto {
namespace {

using test::contains;
using test::content_of;
using test::message_of;
using test::TempFolder;
namespace pickled = test::pickled;

// A tensor of single bytes.
SafetensorsEntry entry(const std::string& name, std::string_view bytes) {
  return {.name = name,
          .type = TensorType::kUint8,
          .shape = {std::ssize(bytes)},
          .bytes = std::as_bytes(std::span(bytes))};
}

std::string text_of(const TensorView* view) {
  if (view == nullptr) return "none";
  return {reinterpret_cast<const char*>(view->bytes.data()), view->bytes.size()};
}

// A file of torch.save with one tensor.
std::string torch_file(const std::string& name, const std::string& bytes) {
  const int64_t size = std::ssize(bytes);
  const pickled::Tensor tensor = {
      .of = {.class_name = "ByteStorage", .num_values = size}, .shape = {size}, .stride = {1}};
  return test::torch_zip(pickled::whole(pickled::dict({{name, pickled::tensor(tensor)}})),
                         {{"0", size, bytes}});
}

std::string index_of(const std::map<std::string, std::string>& shards) {
  return nlohmann::json({{"metadata", {{"total_size", 4}}}, {"weight_map", shards}}).dump();
}

std::string folder_refusal(const TempFolder& folder) {
  const std::string message = message_of<DataError>([&] { WeightFolder::open(folder.path()); });
  EXPECT_PRED2(contains, message, folder.path().string());
  return message;
}

// Two shards and their index.
void write_shards(const TempFolder& folder, const std::string& end) {
  const std::string first = "weights-1" + end;
  const std::string second = "weights-2" + end;
  if (end == ".bin") {
    folder.write(first, torch_file("a", "in a"));
    folder.write(second, torch_file("b", "in b"));
  } else {
    const std::vector<SafetensorsEntry> entries = {entry("a", "in a"), entry("b", "in b")};
    write_safetensors(folder.path() / first, std::span(entries).first(1));
    write_safetensors(folder.path() / second, std::span(entries).last(1));
  }
  const std::string index = end == ".bin" ? "pytorch_model.bin" : "model.safetensors";
  folder.write(index + ".index.json", index_of({{"a", first}, {"b", second}}));
}

TEST(WeightFolder, FilesAreChosenByPriority) {
  const TempFolder folder;
  write_shards(folder, ".bin");
  const auto opened = [&] { return WeightFolder::open(folder.path()); };
  EXPECT_EQ(opened().names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(opened().path_of("b"), folder.path() / "weights-2.bin");
  EXPECT_EQ(opened().files().size(), 2u);

  folder.write("pytorch_model.bin", torch_file("c", "in c"));
  EXPECT_EQ(opened().names(), (std::vector<std::string>{"c"}));
  EXPECT_EQ(opened().path_of("c"), folder.path() / "pytorch_model.bin");

  write_shards(folder, ".safetensors");
  EXPECT_EQ(opened().files(),
            (std::vector<std::filesystem::path>{folder.path() / "weights-1.safetensors",
                                                folder.path() / "weights-2.safetensors"}));
  const SafetensorsEntry last = entry("d", "in d");
  write_safetensors(folder.path() / "model.safetensors", std::span(&last, 1));
  EXPECT_EQ(opened().names(), (std::vector<std::string>{"d"}));
  EXPECT_EQ(opened().files().size(), 1u);
}

TEST(WeightFolder, TensorsSurviveAMove) {
  for (const std::string end : {".bin", ".safetensors"}) {
    const TempFolder folder;
    write_shards(folder, end);
    WeightFolder opened = WeightFolder::open(folder.path());
    const TensorView* first = opened.find("a");
    const WeightFolder weights = std::move(opened);
    EXPECT_EQ(weights.find("a"), first);
    EXPECT_EQ(text_of(first), "in a");
    EXPECT_EQ(text_of(weights.find("b")), "in b");
    EXPECT_EQ(weights.find("c"), nullptr);
    EXPECT_THROW(weights.path_of("c"), InternalError);
  }
}

TEST(WeightFolder, FolderWithoutWeightsIsRefused) {
  const TempFolder folder;
  EXPECT_PRED2(contains, message_of<DataError>([&] { WeightFolder::open(folder.path() / "no"); }),
               "/no: No such file or directory. Expected one of model.safetensors, "
               "model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json.");
  EXPECT_PRED2(contains, folder_refusal(folder), "the folder is empty");
  folder.write("tf_model.h5", "x");
  folder.write("config.json", "x");
  EXPECT_PRED2(contains, folder_refusal(folder),
               "the folder contains config.json, tf_model.h5. Expected");
  for (const char name : std::string("abcdefghi")) folder.write(std::string(1, name), "x");
  EXPECT_PRED2(contains, folder_refusal(folder),
               "contains a, b, c, config.json, d, e, f, g, and 3 more");
  // What an interrupted download leaves.
  std::filesystem::create_symlink("../../blobs/0", folder.path() / "model.safetensors");
  EXPECT_PRED2(contains, folder_refusal(folder), "model.safetensors: No such file or directory");
}

TEST(WeightFolder, MissingShardIsRefused) {
  const TempFolder folder;
  write_shards(folder, ".safetensors");
  std::filesystem::remove(folder.path() / "weights-2.safetensors");
  EXPECT_PRED2(contains, folder_refusal(folder),
               "model.safetensors.index.json: the shard weights-2.safetensors is missing. "
               "Expected all 2 shards in the same folder.");
}

TEST(WeightFolder, WrongIndexIsRefused) {
  const TempFolder folder;
  write_shards(folder, ".safetensors");
  const std::string first = "weights-1.safetensors";
  const std::string second = "weights-2.safetensors";
  const auto refusal = [&](const std::string& index) {
    folder.write("model.safetensors.index.json", index);
    return folder_refusal(folder);
  };
  EXPECT_PRED2(contains, refusal(index_of({{"a", first}, {"b", second}, {"c", second}})),
               "the tensor 'c' is not in weights-2.safetensors");
  EXPECT_PRED2(contains, refusal(index_of({{"a", first}, {"b", first}, {"c", second}})),
               "the tensor 'b' is not in weights-1.safetensors");
  EXPECT_PRED2(contains, refusal("[]"), "it is not a JSON object");
  EXPECT_PRED2(contains, refusal("{}"), "weight_map null");
  EXPECT_PRED2(contains, refusal(R"({"weight_map":{}})"), "weight_map {}");
  EXPECT_PRED2(contains, refusal(R"({"weight_map":["a"]})"), R"(weight_map ["a"])");
  EXPECT_PRED2(contains, refusal(R"({"weight_map":{"a":1}})"), "the tensor 'a' in 1");
  EXPECT_PRED2(contains, refusal(R"({"weight_map":{"a":"x","a":"y"}})"), "'a' occurs twice in it");
  for (const std::string shard : {"", "/etc/passwd", "../x.safetensors", "x/y.safetensors"}) {
    EXPECT_PRED2(
        contains, refusal(index_of({{"a", shard}})),
        "the tensor 'a' in \"" + shard + "\". Expected the name of a file in the same folder.");
  }
}

TEST(WeightFolder, TensorInTwoShardsIsRefused) {
  const TempFolder folder;
  write_shards(folder, ".safetensors");
  const std::vector<SafetensorsEntry> both = {entry("a", "in a"), entry("b", "in b")};
  write_safetensors(folder.path() / "weights-2.safetensors", both);
  EXPECT_PRED2(contains, folder_refusal(folder),
               "weights-2.safetensors: the tensor 'a', which weights-1.safetensors has too. "
               "Expected each tensor in one shard.");
}

TEST(WeightFolder, OneFileIsWrittenIfAllFits) {
  const TempFolder folder;
  const std::vector<SafetensorsEntry> entries = {entry("a", "1234"), entry("b", "56")};
  write_weight_folder(folder.path(), entries, {.max_shard_bytes = 6});
  const WeightFolder weights = WeightFolder::open(folder.path());
  EXPECT_EQ(weights.files(),
            (std::vector<std::filesystem::path>{folder.path() / "model.safetensors"}));
  EXPECT_EQ(text_of(weights.find("b")), "56");
  EXPECT_EQ(SafetensorsFile::open(weights.files().front()).metadata(),
            (SafetensorsMetadata{{"format", "pt"}}));
  write_weight_folder(folder.path(), {});
  EXPECT_TRUE(WeightFolder::open(folder.path()).names().empty());
}

TEST(WeightFolder, ShardsAreWrittenWithTheirIndex) {
  const TempFolder folder;
  const std::vector<SafetensorsEntry> entries = {entry("d", "1234"), entry("c", "56"),
                                                 entry("b", "7890123"), entry("\xC3\xA9", "4")};
  std::vector<std::string> fetched;
  write_weight_folder(folder.path(), entries,
                      {.metadata = {{"note", "x"}},
                       .max_shard_bytes = 6,
                       .fetch = [&](std::span<const std::byte> bytes) {
                         fetched.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                                              bytes.size());
                         return bytes;
                       }});
  EXPECT_EQ(fetched, (std::vector<std::string>{"56", "1234", "7890123", "4"}));
  EXPECT_EQ(content_of(folder.path() / "model.safetensors.index.json"),
            R"({
  "metadata": {
    "total_size": 14
  },
  "weight_map": {
    "b": "model-00002-of-00003.safetensors",
    "c": "model-00001-of-00003.safetensors",
    "d": "model-00001-of-00003.safetensors",
    "\u00e9": "model-00003-of-00003.safetensors"
  }
}
)");
  const WeightFolder weights = WeightFolder::open(folder.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"b", "c", "d", "\xC3\xA9"}));
  for (const SafetensorsEntry& written : entries) {
    EXPECT_EQ(
        text_of(weights.find(written.name)),
        std::string(reinterpret_cast<const char*>(written.bytes.data()), written.bytes.size()));
  }
  for (const std::filesystem::path& file : weights.files())
    EXPECT_EQ(SafetensorsFile::open(file).metadata(), (SafetensorsMetadata{{"note", "x"}}));
}

TEST(WeightFolder, FullDiskIsADataError) {
  const TempFolder folder;
  const std::string many(2000, 'x');
  const std::vector<SafetensorsEntry> entries = {entry("a", many), entry("b", many)};
  const test::FullDisk full(500);
  EXPECT_THROW(write_weight_folder(folder.path(), entries), DataError);
  EXPECT_THROW(write_weight_folder(folder.path(), entries, {.max_shard_bytes = 2000}), DataError);
  EXPECT_THROW(write_weight_folder(folder.path() / "no", entries), DataError);
}

TEST(WeightFolder, DuplicateNamesAreInternalErrors) {
  const TempFolder folder;
  const std::vector<SafetensorsEntry> entries = {entry("a", "1234"), entry("a", "1234")};
  EXPECT_THROW(write_weight_folder(folder.path(), entries, {.max_shard_bytes = 4}), InternalError);
}

}  // namespace
}  // namespace sotto
