// The archives of tests/fixtures/nemo, and copies of them with other settings or weights.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sotto/core/formats/nemo_archive.h"
#include "sotto/core/formats/nemo_writer.h"
#include "support/fixture.h"
#include "support/temp_folder.h"

namespace sotto::test {

inline std::filesystem::path nemo_fixture(const std::string& name) {
  return fixture_folder() / "nemo" / (name + ".nemo");
}

struct NemoEdit {
  // Changes the settings.
  std::function<void(nlohmann::json&)> config = {};
  // Changes the tensors.
  std::function<void(std::vector<SafetensorsEntry>&)> weights = {};
  // Changes the tokenizer's files.
  std::function<void(std::vector<NemoContent::Member>&)> members = {};
};

// Writes a copy of a fixture with changes; JSON is YAML, too.
inline std::filesystem::path edited_nemo(const TempFolder& folder, const std::string& name,
                                         const NemoEdit& edit) {
  NemoArchive archive = NemoArchive::open(nemo_fixture(name));
  nlohmann::json config = nemo_settings(archive.parts(), archive.path());
  if (edit.config) edit.config(config);
  NemoContent content{.config = config.dump(), .members = {}, .weights = {}};
  for (const auto& [file, bytes] : archive.parts().others)
    content.members.push_back({file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  if (edit.members) edit.members(content.members);
  const TorchFile weights = archive.take_weights();
  std::vector<SafetensorsEntry> entries;
  for (const std::string& tensor : weights.names()) {
    const TensorView& view = *weights.find(tensor);
    entries.push_back(
        {.name = tensor, .type = view.type, .shape = view.shape, .bytes = view.bytes});
  }
  if (edit.weights) edit.weights(entries);
  content.weights = entries;
  const std::filesystem::path path = folder.path() / (name + "-edited.nemo");
  write_nemo_archive(path, content);
  return path;
}

}  // namespace sotto::test
