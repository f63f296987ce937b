// Our safetensors files against those of the Python package, by way of
// tests/fixtures/safetensors.json, which make_safetensors.py makes: we read what it wrote, and
// write the same bytes, so that it reads what we wrote.
#include <gtest/gtest.h>

#include "oracle/tensor_samples.h"
#include "sotto/core/formats/safetensors.h"
#include "support/fixture.h"
#include "support/temp_folder.h"

namespace sotto::test {
namespace {

using nlohmann::json;

TEST(SafetensorsOracle, ReadsWhatPythonWrote) {
  const TempFolder folder;
  const json fixture = read_fixture("safetensors");
  ASSERT_GE(fixture.at("files").size(), 3u);
  for (const json& row : fixture.at("files")) {
    const TensorSamples sample(row.at("tensors"));
    const auto path = folder.write("theirs.safetensors", from_hex(row.at("file")));
    const SafetensorsFile file = SafetensorsFile::open(path);
    EXPECT_EQ(file.metadata(), row.at("metadata").get<SafetensorsMetadata>());
    expect_equal(file, sample);
  }
}

TEST(SafetensorsOracle, WritesTheSameBytesAsPython) {
  const TempFolder folder;
  const auto path = folder.path() / "ours.safetensors";
  const json fixture = read_fixture("safetensors");
  for (const json& row : fixture.at("files")) {
    const TensorSamples sample(row.at("tensors"));
    write_safetensors(path, sample.entries, row.at("metadata").get<SafetensorsMetadata>());
    EXPECT_EQ(content_of(path), from_hex(row.at("file")));
  }
}

}  // namespace
}  // namespace sotto::test
