#include "sotto/core/formats/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "sotto/core/files/byte_reader.h"
#include "sotto/core/formats/pickle_reader.h"
#include "sotto/core/formats/torch_state_dict.h"
#include "sotto/core/formats/zip_reader.h"

namespace sotto {

namespace {

constexpr std::string_view kExpected = "a file written by torch.save";
// Maximum ratio of the copied tensors to the size of the file. A storage can have many views; in
// weight files it has few.
constexpr size_t kMaxCopyRatio = 4;

using StorageBytes = std::map<std::string_view, std::span<const std::byte>>;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Content of a file before tensors are created from it.
struct Content {
  std::vector<StoredTensor> tensors;
  StorageBytes storages;
  std::map<std::string, int64_t> dims = {};
};

// --- the zip archive

// Returns the folder that contains all entries: "archive" or the original name of the file.
std::string top_folder(const ZipEntries& entries, const std::filesystem::path& path) {
  constexpr std::string_view kPickle = "/data.pkl";
  std::vector<std::string> folders;
  for (const auto& [name, bytes] : entries) {
    if (name.ends_with(kPickle) && name.find('/') == name.size() - kPickle.size()) {
      folders.push_back(name.substr(0, name.find('/')));
    }
  }
  if (folders.size() != 1) {
    refuse_file(path, fmt::format("a zip archive with {} pickles of tensors", folders.size()),
                std::string(kExpected));
  }
  return folders.front();
}

Content read_archive(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const ZipEntries entries = read_zip(bytes, path);
  const std::string top = top_folder(entries, path);
  const auto order = entries.find(top + "/byteorder");
  if (order != entries.end() && text_of(order->second) != "little") {
    refuse_file(path, "values in another byte order", "little-endian values", /*hint=*/{});
  }
  const Pickle pickle =
      read_pickle(entries.find(top + "/data.pkl")->second, state_dict_names(), path);
  const TorchStorages storages = read_storages(pickle, path);
  Content content{.tensors = read_state_dict(pickle, storages, path),
                  .storages = {},
                  .dims = read_dims(pickle)};
  for (const auto& [key, storage] : storages) {
    const auto entry = entries.find(fmt::format("{}/data/{}", top, key));
    if (entry == entries.end()) continue;
    if (storage.num_bytes() != std::ssize(entry->second)) {
      refuse_file(path, fmt::format("{} bytes for storage '{}'", entry->second.size(), key),
                  fmt::format("{} values of a {}", storage.num_values, storage.class_name));
    }
    content.storages.emplace(key, entry->second);
  }
  return content;
}

// --- the format before PyTorch 1.6

// First byte of a pickle of protocol 2 and later.
constexpr char kPickleStart = '\x80';
// 0x1950a86a20f9469cfc6c, lowest byte first.
constexpr std::string_view kTorchMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t kProtocol = 1001;

class OldFileReader {
 public:
  OldFileReader(std::span<const std::byte> bytes, const std::filesystem::path& path)
      : bytes_(bytes), path_(path) {}

  Content read() {
    check_head();
    const Pickle pickle = next_pickle();
    const TorchStorages storages = read_storages(pickle, path_);
    Content content{.tensors = read_state_dict(pickle, storages, path_),
                    .storages = {},
                    .dims = read_dims(pickle)};
    const Pickle keys = next_pickle();
    if (keys.root().kind != PickleKind::kList) refuse_form("no list of storages");
    ByteReader in(bytes_, path_, "the data after its pickles");
    for (const uint32_t item : keys.root().items) {
      const PickleValue& key = keys.values[item];
      const auto storage = storages.find(key.text);
      if (key.kind != PickleKind::kText || storage == storages.end()) {
        refuse_form("a storage that no tensor uses");
      }
      if (!content.storages.emplace(storage->first, take_storage(in, storage->second)).second) {
        refuse_form(fmt::format("the storage '{}' twice", storage->first));
      }
    }
    if (in.left() > 0) refuse_form(fmt::format("{} bytes after the last storage", in.left()));
    return content;
  }

 private:
  [[noreturn]] void refuse_form(const std::string& found) const {
    refuse_file(path_, found, std::string(kExpected));
  }

  Pickle next_pickle() {
    Pickle pickle = read_pickle(bytes_, state_dict_names(), path_);
    bytes_ = bytes_.subspan(pickle.num_bytes);
    return pickle;
  }

  void check_head() {
    const Pickle magic = next_pickle();
    if (magic.root().kind != PickleKind::kBigInt || magic.root().text != kTorchMagic) {
      refuse_form("another kind of pickle");
    }
    const Pickle protocol = next_pickle();
    if (protocol.root().kind != PickleKind::kInt || protocol.root().number != kProtocol) {
      refuse_form("another version of the format");
    }
    const Pickle system = next_pickle();
    const PickleValue& info = system.root();
    bool is_little = false;
    for (size_t i = 0; info.kind == PickleKind::kDict && i + 1 < info.items.size(); i += 2) {
      is_little |=
          system.item(info, i).text == "little_endian" && system.item(info, i + 1).number == 1;
    }
    if (!is_little) {
      refuse_file(path_, "values in another byte order", "little-endian values", /*hint=*/{});
    }
  }

  std::span<const std::byte> take_storage(ByteReader& in, const TorchStorage& storage) const {
    const auto num_values = in.take_number<int64_t>();
    const std::optional<int64_t> size = storage.num_bytes();
    if (num_values != storage.num_values || !size) {
      refuse_form(fmt::format("{} values for a storage of {}", num_values, storage.num_values));
    }
    return in.take(static_cast<uint64_t>(*size));
  }

  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
};

// --- tensors

bool is_in_row_order(const StoredTensor& tensor) {
  int64_t step = 1;
  for (size_t d = tensor.shape.size(); d-- > 0;) {
    if (tensor.shape[d] != 1 && tensor.stride[d] != step) return false;
    step *= tensor.shape[d];
  }
  return true;
}

// Gathers the values in row-major order. Offsets into the storage were checked before.
std::vector<std::byte> gather(const StoredTensor& tensor, std::span<const std::byte> storage) {
  const auto size = static_cast<size_t>(size_of(tensor.type));
  std::vector<std::byte> values(static_cast<size_t>(*num_bytes(tensor.type, tensor.shape)));
  std::vector<int64_t> index(tensor.shape.size(), 0);
  int64_t at = tensor.offset;
  for (size_t done = 0; done < values.size(); done += size) {
    std::memcpy(values.data() + done, storage.data() + static_cast<size_t>(at) * size, size);
    for (size_t d = index.size(); d-- > 0;) {
      if (index[d] + 1 < tensor.shape[d]) {
        ++index[d];
        at += tensor.stride[d];
        break;
      }
      at -= tensor.stride[d] * index[d];
      index[d] = 0;
    }
  }
  return values;
}

std::span<const std::byte> storage_of(const StoredTensor& tensor, const Content& content,
                                      const std::filesystem::path& path) {
  const auto found = content.storages.find(tensor.storage_key);
  if (found == content.storages.end()) {
    refuse_file(path,
                fmt::format("the values of '{}' (storage '{}') are not in it", tensor.name,
                            tensor.storage_key),
                "the values of all tensors");
  }
  return found->second;
}

}  // namespace

bool is_openai_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".pt" && !std::filesystem::is_directory(path, ignored);
}

TorchFile TorchFile::open(const std::filesystem::path& path) {
  MappedFile file = MappedFile::open(path, std::string(kExpected));
  const std::span<const std::byte> whole = file.bytes();
  return inside(std::move(file), whole, path);
}

TorchFile TorchFile::inside(MappedFile mapped, std::span<const std::byte> bytes,
                            const std::filesystem::path& path) {
  TorchFile file(std::move(mapped));
  if (bytes.empty()) refuse_file(path, "it is empty", std::string(kExpected));
  const bool is_archive = text_of(bytes).starts_with("PK\x03\x04");
  if (!is_archive && !text_of(bytes).starts_with(kPickleStart)) {
    refuse_file(path, "it begins like another kind of file", std::string(kExpected));
  }
  Content content = is_archive ? read_archive(bytes, path) : OldFileReader(bytes, path).read();
  file.dims_ = std::move(content.dims);
  for (const StoredTensor& tensor : content.tensors) {
    file.add(tensor, storage_of(tensor, content, path), path);
  }
  return file;
}

void TorchFile::add(const StoredTensor& tensor, std::span<const std::byte> storage,
                    const std::filesystem::path& path) {
  TensorView& view = tensors_[tensor.name];
  view = {.type = tensor.type, .shape = tensor.shape, .bytes = {}};
  const auto size = static_cast<size_t>(*num_bytes(tensor.type, tensor.shape));
  if (size == 0) return;  // its offset may be anything
  if (is_in_row_order(tensor)) {
    view.bytes = storage.subspan(static_cast<size_t>(tensor.offset * size_of(tensor.type)), size);
    return;
  }
  const size_t limit = kMaxCopyRatio * file_.bytes().size();
  if (size > limit - num_copied_) {
    refuse_file(path, fmt::format("the tensor '{}' repeats the values of its storage", tensor.name),
                "tensors not much larger than the file");
  }
  num_copied_ += size;
  view.bytes = copies_.emplace_back(gather(tensor, storage));
}

std::vector<std::string> TorchFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : tensors_) names.push_back(name);
  return names;
}

const TensorView* TorchFile::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace sotto
