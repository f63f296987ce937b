// Byte-level BPE: vocab.json, merges.txt and tokenizer.json, and the settings next to them.
#include "fuzz/fuzz_target.h"
#include "support/data_reader_checks.h"
#include "support/temp_folder.h"

namespace sotto::fuzz {

namespace {

// A folder with a small vocabulary, in which one file is the input.
std::filesystem::path folder_with(const char* name, const std::filesystem::path& input) {
  static const test::TempFolder all;
  const std::filesystem::path folder = all.path() / name;
  if (!std::filesystem::exists(folder)) {
    all.write(folder / "vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})");
    all.write(folder / "merges.txt", "a b\n");
  }
  std::filesystem::remove(folder / name);
  std::filesystem::create_symlink(input, folder / name);
  return folder;
}

}  // namespace

std::vector<std::string> seeds() {
  return {"#version: 0.2\na b\n", R"({"a": 0, "b": 1, "ab": 2})", R"({"<|x|>": 4})",
          R"({"pad_token": "<|endoftext|>", "eos_token": {"content": "<|endoftext|>"},
          "added_tokens_decoder": {"4": {"content": "<|x|>", "special": true}},
          "additional_special_tokens": ["<|y|>"], "add_prefix_space": true})",
          R"({"added_tokens": [{"id": 3, "content": "<pad>", "special": true}], "normalizer": null,
          "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}]},
          "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b", ["b", "a"]]}})"};
}

void read(std::string_view input) {
  const std::filesystem::path file = file_of(input);
  for (const char* name : {"vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json",
                           "special_tokens_map.json"}) {
    const std::filesystem::path path = folder_with(name, file) / "vocab.json";
    allow_refusal(path.parent_path(), [&] { test::check_byte_bpe(path); });
  }
  const std::filesystem::path path = folder_with("tokenizer.json", file) / "tokenizer.json";
  allow_refusal(path.parent_path(), [&] { test::check_byte_bpe(path); });
}

}  // namespace sotto::fuzz
