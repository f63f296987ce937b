// Files of named tensors in the safetensors format (github.com/huggingface/safetensors), which
// Python can load directly: eight bytes with the length of the header, a JSON header, the bytes of
// all tensors. Bytes are little-endian, as on every supported machine.
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

// A tensor to write. The bytes are its values in row-major order and must outlive the call.
struct SafetensorsEntry {
  std::string name;
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// Writes a file that is byte-identical to the output of the reference implementation: tensors of
// wider types first, then by name, all aligned to their type. The bytes are written without a copy.
// Neither synced nor atomic: write into an AtomicFolder. Returns size and checksum for a FileList.
// Throws DataError where it cannot be written.
//
// `fetch`: for entries whose bytes are on a device, copies those of one entry to host memory, where
// they stay valid until the next call.
using FetchBytes = std::function<std::span<const std::byte>(std::span<const std::byte>)>;
FileSum write_safetensors(const std::filesystem::path& path,
                          std::span<const SafetensorsEntry> entries,
                          const SafetensorsMetadata& metadata = {}, const FetchBytes& fetch = {});

// A file mapped into memory for reading: only accessed pages are read. It must not change while it
// is open.
class SafetensorsFile {
 public:
  // Opens a file and checks the whole header. Throws DataError where the file is missing,
  // truncated, not a safetensors file, has an unknown type, or where names, shapes and offsets are
  // inconsistent.
  static SafetensorsFile open(const std::filesystem::path& path);

  // Returns the names in alphabetical order.
  std::vector<std::string> names() const;

  // Returns the tensor of that name; nullptr if there is none. It is valid while the file is open.
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
