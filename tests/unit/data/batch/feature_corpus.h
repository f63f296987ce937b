// Small corpora of stored features for tests: a folder with a manifest and its `.f16` file.
#pragma once

#include <c10/util/Half.h>
#include <c10/util/TypeCast.h>

#include <string>
#include <vector>

#include "sotto/data/manifest/manifest.h"
#include "support/temp_folder.h"

namespace sotto::data {

// The bytes of a file of features.
inline std::string half_bytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    const auto half = c10::convert<c10::Half>(value);
    bytes.append(reinterpret_cast<const char*>(&half.x), sizeof(half.x));
  }
  return bytes;
}

// One utterance of a corpus: two columns a frame.
struct TestUtterance {
  int64_t num_frames = 1;
  std::string text = "a";
  // Another file than the corpus's own, which need not be there.
  std::string file = "x.f16";
  // As they stand in the manifest; empty: none.
  std::string segments = "";
};

class FeatureCorpus {
 public:
  static constexpr int64_t kDim = 2;

  // Value i of the file is i; a frame lasts 0.01 s.
  explicit FeatureCorpus(const std::vector<TestUtterance>& utterances) {
    int64_t offset = 0;
    std::string lines;
    for (const TestUtterance& utterance : utterances) {
      lines += R"({"feature_filepath": ")" + utterance.file + R"(", "frame_offset": )" +
               std::to_string(offset) + R"(, "num_frames": )" +
               std::to_string(utterance.num_frames) + R"(, "feature_dim": 2, "duration": )" +
               std::to_string(0.01 * static_cast<double>(utterance.num_frames)) + R"(, "text": ")" +
               utterance.text + "\"" +
               (utterance.segments.empty() ? "" : R"(, "segments": )" + utterance.segments) + "}\n";
      offset += utterance.num_frames;
    }
    std::vector<float> values;
    for (int64_t i = 0; i < offset * kDim; ++i) values.push_back(static_cast<float>(i));
    folder_.write("x.f16", half_bytes(values));
    manifest_ = folder_.write("m.jsonl", lines);
  }

  Manifest manifest() const { return Manifest::read(manifest_); }
  const test::TempFolder& folder() const { return folder_; }

 private:
  test::TempFolder folder_;
  std::filesystem::path manifest_;
};

}  // namespace sotto::data
