#include "sotto/core/safetensors.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/output_file.h"
#include "sotto/core/text_file.h"

namespace sotto {

namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderAlignment = 8;
// The reference implementation reads no longer ones.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";

struct TypeInfo {
  TensorType type;
  std::string_view name;
  int64_t bytes;
};

// In the order in which the reference implementation lays them out: wider ones first, so that each
// is aligned.
constexpr std::array kTypes = {
    TypeInfo{TensorType::kInt64, "I64", 8},   TypeInfo{TensorType::kFloat32, "F32", 4},
    TypeInfo{TensorType::kInt32, "I32", 4},   TypeInfo{TensorType::kBFloat16, "BF16", 2},
    TypeInfo{TensorType::kFloat16, "F16", 2}, TypeInfo{TensorType::kInt16, "I16", 2},
    TypeInfo{TensorType::kUint8, "U8", 1},
};

const TypeInfo& info_of(TensorType type) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const TypeInfo& info) { return info.type == type; });
  SOTTO_ASSERT(found != kTypes.end(), "a type without a name");
  return *found;
}

// The bytes of a tensor; nothing where they are more than can be counted.
std::optional<int64_t> num_bytes(TensorType type, std::span<const int64_t> shape) {
  int64_t bytes = size_of(type);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// --- writing

void check_entries(std::span<const SafetensorsEntry> entries) {
  std::set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    SOTTO_ASSERT(is_utf8(entry.name) && entry.name != kMetadata, "a tensor may not be named '{}'",
                 entry.name);
    SOTTO_ASSERT(names.insert(entry.name).second, "two tensors are named '{}'", entry.name);
    SOTTO_ASSERT(num_bytes(entry.type, entry.shape) == static_cast<int64_t>(entry.bytes.size()),
                 "'{}' of shape [{}] in {} has {} bytes", entry.name, fmt::join(entry.shape, ", "),
                 info_of(entry.type).name, entry.bytes.size());
  }
}

std::vector<const SafetensorsEntry*> in_file_order(std::span<const SafetensorsEntry> entries) {
  std::vector<const SafetensorsEntry*> ordered;
  for (const SafetensorsEntry& entry : entries) ordered.push_back(&entry);
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return std::tuple(&info_of(a->type), std::string_view(a->name)) <
           std::tuple(&info_of(b->type), std::string_view(b->name));
  });
  return ordered;
}

// Without the length before it. By hand, because the order of its keys is part of the format that
// others read and compare.
std::string header_text(const std::vector<const SafetensorsEntry*>& entries,
                        const SafetensorsMetadata& metadata) {
  std::vector<std::string> parts;
  if (!metadata.empty()) {
    parts.push_back(fmt::format("\"{}\":{}", kMetadata, nlohmann::json(metadata).dump()));
  }
  size_t at = 0;
  for (const SafetensorsEntry* entry : entries) {
    const size_t end = at + entry->bytes.size();
    parts.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                nlohmann::json(entry->name).dump(), info_of(entry->type).name,
                                fmt::join(entry->shape, ","), at, end));
    at = end;
  }
  std::string text = fmt::format("{{{}}}", fmt::join(parts, ","));
  const size_t rest = text.size() % kHeaderAlignment;
  if (rest > 0) text.append(kHeaderAlignment - rest, ' ');
  return text;
}

// --- reading

[[noreturn]] void refuse(const std::filesystem::path& path, std::string found,
                         std::string expected) {
  throw DataError({.attempted = fmt::format("reading {}", path.string()),
                   .found = std::move(found),
                   .expected = std::move(expected),
                   .hint = "If it was copied or downloaded, do that again."});
}

std::span<const std::byte> map_file(const std::filesystem::path& path) {
  // Without waiting, or a pipe would hold us here.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = std::generic_category().message(errno),
                     .expected = "a safetensors file"});
  }
  struct stat status{};
  const bool known = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = known ? static_cast<size_t>(status.st_size) : 0;
  void* mapped = MAP_FAILED;
  if (size > kLengthBytes) mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int code = errno;
  ::close(descriptor);
  if (!known) refuse(path, "it is no regular file", "a safetensors file");
  if (size <= kLengthBytes) {
    refuse(path, fmt::format("it ends after {} bytes", size), "a header of some length");
  }
  if (mapped == MAP_FAILED) {
    refuse(path, std::generic_category().message(code), "to map it into memory");
  }
  return {static_cast<const std::byte*>(mapped), size};
}

std::string_view header_of(std::span<const std::byte> file, const std::filesystem::path& path) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes || length > file.size() - kLengthBytes) {
    refuse(path, fmt::format("a header of {} bytes in a file of {}", length, file.size()),
           "a header that lies in the file");
  }
  return {reinterpret_cast<const char*>(file.data()) + kLengthBytes, length};
}

// What stands in a header, for an error message.
std::string shown(const nlohmann::json& value) {
  constexpr size_t kMaxShown = 80;
  std::string text = value.dump();
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...";
}

nlohmann::json parse_header(std::string_view text, const std::filesystem::path& path) {
  // The parser keeps the last of equal keys and says nothing.
  std::vector<std::set<std::string>> keys;
  std::string repeated;
  bool is_repeated = false;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) keys.pop_back();
    if (event == nlohmann::json::parse_event_t::key && !keys.back().insert(value).second) {
      is_repeated = true;
      repeated = value;
    }
    return true;
  };
  nlohmann::json header = nlohmann::json::parse(text, watch, /*allow_exceptions=*/false);
  if (!header.is_object()) refuse(path, "its header is no JSON object", "a safetensors file");
  if (is_repeated) {
    refuse(path, fmt::format("the name '{}' occurs twice in its header", repeated),
           "each name once");
  }
  return header;
}

// The tensors of a header, each checked by itself, then all against each other.
class TensorReader {
 public:
  TensorReader(std::span<const std::byte> data, const std::filesystem::path& path)
      : data_(data), path_(path) {}

  TensorView read(const std::string& name, const nlohmann::json& entry) const {
    const auto field = [&](const char* key) {
      return entry.is_object() ? entry.value(key, nlohmann::json()) : nlohmann::json();
    };
    TensorView view{.type = read_type(name, field("dtype")),
                    .shape = read_numbers(name, "shape", field("shape")),
                    .bytes = {}};
    const std::vector<int64_t> offsets = read_numbers(name, "data_offsets", field("data_offsets"));
    const auto size = static_cast<int64_t>(data_.size());
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > size) {
      complain(name, fmt::format("data_offsets [{}]", fmt::join(offsets, ", ")),
               fmt::format("a begin and an end within the {} bytes of data", size));
    }
    const int64_t bytes = offsets[1] - offsets[0];
    if (num_bytes(view.type, view.shape) != bytes) {
      complain(name, fmt::format("{} bytes", bytes),
               fmt::format("as many as shape [{}] in {} takes", fmt::join(view.shape, ", "),
                           info_of(view.type).name));
    }
    view.bytes = data_.subspan(static_cast<size_t>(offsets[0]), static_cast<size_t>(bytes));
    return view;
  }

  // The tensors fill the data without gaps and without sharing a byte, as the format demands.
  void check_layout(const std::map<std::string, TensorView, std::less<>>& tensors) const {
    std::vector<std::pair<const std::byte*, const std::string*>> starts;
    for (const auto& [name, view] : tensors) starts.emplace_back(view.bytes.data(), &name);
    // An empty tensor begins where the next one does, and comes before it.
    std::sort(starts.begin(), starts.end(), [&](const auto& a, const auto& b) {
      return std::tuple(a.first, tensors.find(*a.second)->second.bytes.size()) <
             std::tuple(b.first, tensors.find(*b.second)->second.bytes.size());
    });
    const std::byte* end = data_.data();
    for (const auto& [start, name] : starts) {
      if (start < end) complain(*name, "bytes of another tensor too", "bytes of its own");
      if (start > end) complain(*name, "a gap before its bytes", "tensors without gaps");
      end = start + tensors.find(*name)->second.bytes.size();
    }
    const auto used = static_cast<size_t>(end - data_.data());
    if (used != data_.size()) {
      refuse(path_, fmt::format("{} bytes of data for tensors of {}", data_.size(), used),
             "all bytes to belong to tensors");
    }
  }

 private:
  [[noreturn]] void complain(const std::string& name, const std::string& found,
                             std::string expected) const {
    refuse(path_, fmt::format("the tensor '{}' has {}", name, found), std::move(expected));
  }

  TensorType read_type(const std::string& name, const nlohmann::json& value) const {
    std::vector<std::string_view> names;
    for (const TypeInfo& info : kTypes) {
      if (value == info.name) return info.type;
      names.push_back(info.name);
    }
    complain(name, fmt::format("dtype {}", shown(value)),
             fmt::format("one of {}", fmt::join(names, ", ")));
  }

  std::vector<int64_t> read_numbers(const std::string& name, const char* key,
                                    const nlohmann::json& value) const {
    std::vector<int64_t> numbers;
    bool good = value.is_array();
    for (size_t i = 0; good && i < value.size(); ++i) {
      good = value[i].is_number_unsigned() && std::in_range<int64_t>(value[i].get<uint64_t>());
      if (good) numbers.push_back(value[i].get<int64_t>());
    }
    if (!good) {
      complain(name, fmt::format("{} {}", key, shown(value)), "a list of whole numbers from 0 on");
    }
    return numbers;
  }

  std::span<const std::byte> data_;
  const std::filesystem::path& path_;
};

}  // namespace

int64_t size_of(TensorType type) {
  return info_of(type).bytes;
}

void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata, const FetchBytes& fetch) {
  check_entries(entries);
  for (const auto& [key, value] : metadata) {
    SOTTO_ASSERT(is_utf8(key) && is_utf8(value), "the metadata '{}' is not UTF-8", key);
  }
  const std::vector<const SafetensorsEntry*> ordered = in_file_order(entries);
  const std::string header = header_text(ordered, metadata);
  const uint64_t length = header.size();
  OutputFile file = OutputFile::create(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const SafetensorsEntry* entry : ordered)
    file.write(fetch ? fetch(entry->bytes) : entry->bytes);
  file.close();
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file(map_file(path));
  file.read_header(path);
  return file;
}

void SafetensorsFile::read_header(const std::filesystem::path& path) {
  const std::string_view text = header_of(mapped_, path);
  const TensorReader reader(mapped_.subspan(kLengthBytes + text.size()), path);
  const nlohmann::json header = parse_header(text, path);
  for (const auto& [name, entry] : header.items()) {
    if (name != kMetadata) {
      tensors_.emplace(name, reader.read(name, entry));
      continue;
    }
    const bool good = entry.is_object() && std::all_of(entry.begin(), entry.end(),
                                                       [](const auto& v) { return v.is_string(); });
    if (!good) refuse(path, "its metadata is no map of texts", "texts by their names");
    metadata_ = entry.get<SafetensorsMetadata>();
  }
  reader.check_layout(tensors_);
}

SafetensorsFile::~SafetensorsFile() {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): munmap takes no pointer to const
  if (!mapped_.empty()) munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : mapped_(std::exchange(other.mapped_, {})),
      tensors_(std::move(other.tensors_)),
      metadata_(std::move(other.metadata_)) {}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : tensors_) names.push_back(name);
  return names;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace sotto
