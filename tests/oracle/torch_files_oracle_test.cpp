// Weights that PyTorch wrote, by way of tests/fixtures/torch_files.json, which make_torch_files.py
// makes: we read its files in both forms, and read and write folders of shards as transformers lays
// them out.
#include <gtest/gtest.h>

#include "oracle/tensor_samples.h"
#include "sotto/core/formats/torch_file.h"
#include "sotto/core/formats/weight_folder.h"
#include "support/fixture.h"
#include "support/temp_folder.h"

namespace sotto::test {
namespace {

using nlohmann::json;

TEST(TorchFilesOracle, ReadsWhatTorchSaved) {
  const TempFolder folder;
  const json fixture = read_fixture("torch_files");
  ASSERT_GE(fixture.at("files").size(), 10u);
  for (const json& row : fixture.at("files")) {
    const auto path = folder.write("pytorch_model.bin", from_hex(row.at("file")));
    const TensorSamples samples(row.at("tensors"));
    expect_equal(TorchFile::open(path), samples);
    expect_equal(WeightFolder::open(folder.path()), samples);
  }
}

TEST(TorchFilesOracle, ReadsShardedFolders) {
  const TempFolder folder;
  const json shards = read_fixture("torch_files").at("shards");
  ASSERT_GE(shards.at("files").size(), 4u);
  for (const auto& [name, content] : shards.at("files").items())
    folder.write(name, from_hex(content));
  const WeightFolder weights = WeightFolder::open(folder.path());
  EXPECT_EQ(weights.files().size(), shards.at("files").size() - 1);
  expect_equal(weights, TensorSamples(shards.at("tensors")));
}

TEST(TorchFilesOracle, WritesTheSameShardsAsPython) {
  const TempFolder folder;
  const json shards = read_fixture("torch_files").at("shards");
  const TensorSamples samples(shards.at("tensors"));
  write_weight_folder(folder.path(), samples.entries,
                      {.max_shard_bytes = shards.at("max_shard_bytes").get<int64_t>()});
  for (const auto& [name, content] : shards.at("files").items())
    EXPECT_EQ(content_of(folder.path() / name), from_hex(content)) << name;
}

}  // namespace
}  // namespace sotto::test
