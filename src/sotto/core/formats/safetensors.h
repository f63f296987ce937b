// Files of named tensors in the safetensors format (github.com/huggingface/safetensors), which
// Python loads as they are: eight bytes with the length of the header, a JSON header, the bytes of
// all tensors. Bytes are little-endian, as on every machine we build for.
//
//   write_safetensors(folder.path() / "model.safetensors", entries, {{"format", "pt"}});
//   const auto file = SafetensorsFile::open(path);
//   if (const TensorView* weight = file.find("encoder.weight")) copy(weight->bytes);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/files/checksum.h"
#include "sotto/core/files/mapped_file.h"
#include "sotto/core/formats/tensor_view.h"

namespace sotto {

using SafetensorsMetadata = std::map<std::string, std::string, std::less<>>;

// A tensor to be written. The bytes are its values in row order and must outlive the call.
struct SafetensorsEntry {
  std::string name;
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// Writes the file, byte for byte as the reference implementation does: tensors of wider types
// first, then by name, all aligned to their type. The bytes go from where they are to the file. Is
// not synced and not atomic: write into an AtomicFolder. Returns what was written, for a FileList.
// Throws DataError where it cannot be written.
//
// `fetch`: for entries whose bytes are on a device, brings those of one into host memory, where
// they stay until the next call.
using FetchBytes = std::function<std::span<const std::byte>(std::span<const std::byte>)>;
FileSum write_safetensors(const std::filesystem::path& path,
                          std::span<const SafetensorsEntry> entries,
                          const SafetensorsMetadata& metadata = {}, const FetchBytes& fetch = {});

// A file opened for reading, mapped into memory: only what is looked at is read. It must not change
// while it is open.
class SafetensorsFile {
 public:
  // Checks the whole header. Throws DataError where the file is missing, cut short, no safetensors
  // file, holds a type not known here, or where names, shapes and offsets do not fit each other.
  static SafetensorsFile open(const std::filesystem::path& path);

  // In the order of the alphabet.
  std::vector<std::string> names() const;

  // The tensor of that name, nullptr where there is none. It lasts as long as the file is open.
  const TensorView* find(std::string_view name) const;

  const SafetensorsMetadata& metadata() const { return metadata_; }

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}

  void read_header(const std::filesystem::path& path);

  MappedFile file_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  SafetensorsMetadata metadata_;
};

}  // namespace sotto
