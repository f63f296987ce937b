// Readers of files that others made, each called on what may be broken: all that it gives out is
// looked at, and what it promises of that is checked. The seeded mutations of `make test` and the
// fuzz programs (tests/fuzz) share these. A reader may refuse with an error of its own; a promise
// that is not kept is a BrokenPromise, whoever calls.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_json.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/formats/gzip.h"
#include "sotto/core/formats/nemo_archive.h"
#include "sotto/core/formats/npy.h"
#include "sotto/core/formats/pickle_reader.h"
#include "sotto/core/formats/tar_reader.h"
#include "sotto/core/formats/tensor_view.h"
#include "sotto/core/formats/torch_state_dict.h"
#include "sotto/core/formats/zip_reader.h"
#include "sotto/core/units.h"
#include "sotto/core/utf8.h"
#include "unit/core/config/sample_options.h"

namespace sotto::test {

// Of no type of ours, so that nothing takes it for a refusal.
class BrokenPromise : public std::logic_error {
  using std::logic_error::logic_error;
};

inline void expect_promise(bool is_kept, const std::string& promise) {
  if (!is_kept) throw BrokenPromise("a reader's promise is broken: " + promise);
}

// Called with what a reader gave out of a file, while that is open.
using OnBytes = std::function<void(std::span<const std::byte>)>;

// Reads every byte, so that a sanitizer sees one that is not there.
inline void touch(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
  [[maybe_unused]] const volatile unsigned kept = sum;
}

inline void check_tensor(const TensorView& view, const OnBytes& on_bytes) {
  expect_promise(num_bytes(view.type, view.shape) == std::ssize(view.bytes),
                 "a tensor has the bytes of its shape");
  touch(view.bytes);
  if (on_bytes) on_bytes(view.bytes);
}

inline bool is_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

// --- files of tensors

// SafetensorsFile or TorchFile.
template <class File>
void check_tensor_file(const std::filesystem::path& path, const OnBytes& on_bytes = {}) {
  const File file = File::open(path);
  for (const std::string& name : file.names()) {
    expect_promise(is_utf8(name), "names are UTF-8");
    check_tensor(*file.find(name), on_bytes);
  }
}

inline void check_npy(const std::filesystem::path& path) {
  const NpyFile file = NpyFile::open(path);
  expect_promise(file.shape().size() == 2, "an array has two dimensions");
  const std::vector<std::byte> values = file.read(0, file.shape()[0]);
  check_tensor({.type = file.type(), .shape = file.shape(), .bytes = values}, {});
}

inline void check_pickle(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const Pickle pickle = read_pickle(bytes, state_dict_names(), path);
  expect_promise(pickle.num_bytes <= bytes.size(), "a pickle ends in its memory");
  for (const StoredTensor& tensor : read_state_dict(pickle, read_storages(pickle, path), path))
    expect_promise(tensor.shape.size() == tensor.stride.size(), "a stride for each size");
}

// --- archives

inline void check_zip(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  for (const auto& [name, content] : read_zip(bytes, path)) {
    expect_promise(is_inside(content, bytes), "a file lies in its archive");
    touch(content);
  }
}

inline void check_tar(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  walk_tar(bytes, path, [&](const TarEntry& entry, size_t offset) {
    expect_promise(offset < bytes.size(), "a header lies in its archive");
    expect_promise(entry.offset <= bytes.size() && entry.size <= bytes.size() - entry.offset,
                   "a file lies in its archive");
    expect_promise(is_utf8(entry.name) && !entry.name.empty(), "a file has a name in UTF-8");
    touch(bytes.subspan(entry.offset, entry.size));
  });
}

// An archive that was indexed has the files that a walk through the same bytes meets.
inline void check_tar_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const TarFile file = TarFile::open(path);
  int64_t num_files = 0;
  walk_tar(bytes, path, [&](const TarEntry& entry, size_t) {
    ++num_files;
    const std::optional<FilePart> found = file.find(entry.name);
    expect_promise(found.has_value(), "a file is found by its name");
    std::string content(entry.size, '\0');
    expect_promise(found->read(0, content) == found->size &&
                       std::ranges::equal(std::as_bytes(std::span(content)),
                                          bytes.subspan(entry.offset, entry.size)),
                   "a file is found by its name");
  });
  expect_promise(file.size() == num_files, "an index has all files");
}

// Everything of a `.nemo` archive but the tensors and the tokenizer.
inline void check_nemo(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const NemoParts parts = find_nemo_parts(bytes, path);
  expect_promise(
      is_inside(std::as_bytes(std::span(parts.config)), bytes) && is_inside(parts.weights, bytes),
      "a part lies in its archive");
  expect_promise(is_utf8(parts.config), "settings are UTF-8");
  touch(parts.weights);
  for (const auto& [name, content] : parts.others) {
    expect_promise(is_utf8(name), "names are UTF-8");
    touch(content);
  }
  expect_promise(is_utf8(nemo_tokenizer_name(nemo_settings(parts, path))), "names are UTF-8");
}

// What is unpacked has at most the bytes that it may have.
inline void check_gzip(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  constexpr int64_t kMaxBytes = 1 << 20;
  const MappedFile file = unpack_gzip(bytes, path, kMaxBytes);
  expect_promise(std::ssize(file.bytes()) <= kMaxBytes, "a file grows to its limit at most");
  touch(file.bytes());
}

// --- configurations

// What is read from a tree is written and read back to the same, in either notation.
inline void check_options(const ConfigNode& tree) {
  const auto options = read_options<SampleOptions>(tree);
  const ConfigNode written = write_options(options);
  expect_promise(
      read_options<SampleOptions>(parse_yaml(format_yaml(written), "what was written")) == options,
      "YAML is read back");
  expect_promise(
      read_options<SampleOptions>(parse_json(format_json(written), "what was written")) == options,
      "JSON is read back");
}

// By its name JSON or YAML.
inline void check_config(const std::filesystem::path& path) {
  check_options(load_config(path));
}

// Whether the tree is what another parser makes of the same text.
inline bool is_same(const ConfigNode& node, const nlohmann::json& json) {
  switch (node.kind) {
    case ConfigNode::Kind::kEmpty: return json.is_null();
    case ConfigNode::Kind::kPlain: return json == nlohmann::json::parse(node.text);
    case ConfigNode::Kind::kQuoted: return json == node.text;
    case ConfigNode::Kind::kList:
      return json.is_array() &&
             std::ranges::equal(node.children, json,
                                [](const auto& a, const auto& b) { return is_same(a, b); });
    case ConfigNode::Kind::kMap:
      return json.is_object() && json.size() == node.children.size() &&
             std::ranges::all_of(node.children, [&](const ConfigNode& child) {
               return json.contains(child.key) && is_same(child, json.at(child.key));
             });
  }
  return false;
}

inline void check_json(const std::string& text, const std::string& source) {
  const ConfigNode tree = parse_json(text, source);
  expect_promise(is_same(tree, nlohmann::json::parse(text)), "a tree is what its text says");
}

// --- text

inline void check_utf8(std::string_view text) {
  if (!is_utf8(text)) return;
  std::string again;
  for_each_code_point(text, [&](char32_t code) {
    expect_promise(code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF), "a code point is one");
    append_utf8(again, code);
  });
  expect_promise(again == text, "code points are the text");
}

// A text file is read as it stands, but for a byte order mark.
inline void check_text_file(const std::filesystem::path& path, const std::string& content) {
  const std::string text = read_text_file(path);
  expect_promise(is_utf8(text) && content.ends_with(text), "a text file is its text");
}

inline void check_memory_size(const std::string& text) {
  const MemorySize size = MemorySize::parse(text);
  expect_promise(MemorySize::parse(size.to_string()) == size, "a memory size is read back");
}

inline void check_duration(const std::string& text) {
  const double seconds = parse_duration(text);
  expect_promise(seconds >= 0, "a duration is not negative");
  expect_promise(!format_duration(seconds).empty(), "a duration can be shown");
}

}  // namespace sotto::test
