// Our safetensors files against those of the Python package, by way of
// tests/fixtures/safetensors.json, which make_safetensors.py makes: we read what it wrote, and
// write the same bytes, so that it reads what we wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "sotto/core/options.h"
#include "sotto/core/safetensors.h"
#include "support/fixture.h"
#include "support/temp_folder.h"

namespace sotto::test {
namespace {

using nlohmann::json;

constexpr std::array kTypeNames = {Named<TensorType>{"F32", TensorType::kFloat32},
                                   Named<TensorType>{"F16", TensorType::kFloat16},
                                   Named<TensorType>{"BF16", TensorType::kBFloat16},
                                   Named<TensorType>{"I64", TensorType::kInt64},
                                   Named<TensorType>{"I32", TensorType::kInt32},
                                   Named<TensorType>{"U8", TensorType::kUint8}};

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// The tensors of one file of the fixture, with their bytes.
struct Sample {
  explicit Sample(const json& row) : metadata(row.at("metadata").get<SafetensorsMetadata>()) {
    for (const json& tensor : row.at("tensors")) bytes.push_back(from_hex(tensor.at("bytes")));
    for (size_t i = 0; i < bytes.size(); ++i) {
      const json& tensor = row.at("tensors")[i];
      entries.push_back({.name = tensor.at("name"),
                         .type = value_of(tensor.at("dtype").get<std::string>(), kTypeNames),
                         .shape = tensor.at("shape").get<std::vector<int64_t>>(),
                         .bytes = std::as_bytes(std::span(bytes[i]))});
    }
  }

  SafetensorsMetadata metadata;
  std::vector<std::string> bytes;
  std::vector<SafetensorsEntry> entries;
};

TEST(SafetensorsOracle, WeReadWhatPythonWrote) {
  const TempFolder folder;
  const json fixture = read_fixture("safetensors");
  ASSERT_GE(fixture.at("files").size(), 3u);
  for (const json& row : fixture.at("files")) {
    const Sample sample(row);
    const auto path = folder.write("theirs.safetensors", from_hex(row.at("file")));
    const SafetensorsFile file = SafetensorsFile::open(path);
    EXPECT_EQ(file.metadata(), sample.metadata);
    EXPECT_EQ(file.names().size(), sample.entries.size());
    for (const SafetensorsEntry& entry : sample.entries) {
      const TensorView* view = file.find(entry.name);
      ASSERT_NE(view, nullptr) << entry.name;
      EXPECT_EQ(view->type, entry.type) << entry.name;
      EXPECT_EQ(view->shape, entry.shape) << entry.name;
      EXPECT_TRUE(std::ranges::equal(view->bytes, entry.bytes)) << entry.name;
    }
  }
}

TEST(SafetensorsOracle, WeWriteTheBytesThatPythonWrites) {
  const TempFolder folder;
  const auto path = folder.path() / "ours.safetensors";
  const json fixture = read_fixture("safetensors");
  for (const json& row : fixture.at("files")) {
    const Sample sample(row);
    write_safetensors(path, sample.entries, sample.metadata);
    EXPECT_EQ(content_of(path), from_hex(row.at("file")));
  }
}

}  // namespace
}  // namespace sotto::test
