#include "sotto/core/formats/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/json_object.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/files/text_file.h"

namespace sotto {

namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderAlignment = 8;
// The limit of the reference implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";

struct TypeInfo {
  TensorType type;
  std::string_view name;
};

// In the storage order of the reference implementation: wider types first, so that each tensor is
// aligned.
constexpr std::array kTypeInfos = {
    TypeInfo{TensorType::kInt64, "I64"},     TypeInfo{TensorType::kFloat64, "F64"},
    TypeInfo{TensorType::kFloat32, "F32"},   TypeInfo{TensorType::kInt32, "I32"},
    TypeInfo{TensorType::kBFloat16, "BF16"}, TypeInfo{TensorType::kFloat16, "F16"},
    TypeInfo{TensorType::kInt16, "I16"},     TypeInfo{TensorType::kUint8, "U8"},
    TypeInfo{TensorType::kBool, "BOOL"},
};

const TypeInfo& info_of(TensorType type) {
  const auto* found = std::find_if(kTypeInfos.begin(), kTypeInfos.end(),
                                   [&](const TypeInfo& info) { return info.type == type; });
  SOTTO_ASSERT(found != kTypeInfos.end(), "a type without a name");
  return *found;
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

// Returns the header without its length prefix. Formatted by hand, because the order of its keys is
// part of the format that others read and compare.
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

std::string_view header_of(std::span<const std::byte> file, const std::filesystem::path& path) {
  if (file.size() <= kLengthBytes) {
    refuse_file(path, fmt::format("it ends after {} bytes", file.size()), "a header");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes || length > file.size() - kLengthBytes) {
    refuse_file(path, fmt::format("a header of {} bytes in a file of {}", length, file.size()),
                "a header inside the file");
  }
  return {reinterpret_cast<const char*>(file.data()) + kLengthBytes, length};
}

// Reads the tensors of a header: checks each one individually, then all against each other.
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
               fmt::format("as many as shape [{}] in {} needs", fmt::join(view.shape, ", "),
                           info_of(view.type).name));
    }
    view.bytes = data_.subspan(static_cast<size_t>(offsets[0]), static_cast<size_t>(bytes));
    return view;
  }

  // Checks that the tensors fill the data without gaps or overlaps, as the format requires.
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
      if (start < end) complain(*name, "bytes that overlap another tensor", "bytes of its own");
      if (start > end) complain(*name, "a gap before its bytes", "tensors without gaps");
      end = start + tensors.find(*name)->second.bytes.size();
    }
    const auto used = static_cast<size_t>(end - data_.data());
    if (used != data_.size()) {
      refuse_file(path_, fmt::format("{} bytes of data for tensors of {}", data_.size(), used),
                  "all bytes to belong to tensors");
    }
  }

 private:
  [[noreturn]] void complain(const std::string& name, const std::string& found,
                             std::string expected) const {
    refuse_file(path_, fmt::format("the tensor '{}' has {}", name, found), std::move(expected));
  }

  TensorType read_type(const std::string& name, const nlohmann::json& value) const {
    std::vector<std::string_view> names;
    for (const TypeInfo& info : kTypeInfos) {
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
      complain(name, fmt::format("{} {}", key, shown(value)), "a list of non-negative integers");
    }
    return numbers;
  }

  std::span<const std::byte> data_;
  const std::filesystem::path& path_;
};

}  // namespace

FileSum write_safetensors(const std::filesystem::path& path,
                          std::span<const SafetensorsEntry> entries,
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
  return file.sum();
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file(MappedFile::open(path, "a safetensors file"));
  file.read_header(path);
  return file;
}

void SafetensorsFile::read_header(const std::filesystem::path& path) {
  const std::string_view text = header_of(file_.bytes(), path);
  const TensorReader reader(file_.bytes().subspan(kLengthBytes + text.size()), path);
  const nlohmann::json header = parse_json_object(
      text, {.path = path, .part = "its header", .expected = "a safetensors file"});
  for (const auto& [name, entry] : header.items()) {
    if (name != kMetadata) {
      tensors_.emplace(name, reader.read(name, entry));
      continue;
    }
    const bool good = entry.is_object() && std::all_of(entry.begin(), entry.end(),
                                                       [](const auto& v) { return v.is_string(); });
    if (!good) refuse_file(path, "its metadata is not a map of strings", "strings by name");
    metadata_ = entry.get<SafetensorsMetadata>();
  }
  reader.check_layout(tensors_);
}

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
