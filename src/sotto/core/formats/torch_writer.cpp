#include "sotto/core/formats/torch_writer.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {

namespace {

// Where values begin in the file, as in torch.save.
constexpr uint64_t kAlignment = 64;
// Signatures and lengths of zip's records, from PKWARE's APPNOTE.TXT, sections 4.3.7 to 4.3.16.
constexpr uint32_t kMemberHeader = 0x04034b50, kDescriptor = 0x08074b50;
constexpr uint32_t kDirectoryHeader = 0x02014b50, kArchiveEnd = 0x06054b50;
constexpr uint32_t kArchiveEnd64 = 0x06064b50, kEndLocator64 = 0x07064b50;
constexpr uint64_t kHeaderBytes = 30, kDescriptorBytes = 16, kEntryBytes = 46;
constexpr uint64_t kExtra64Bytes = 12;
constexpr uint64_t kEndsBytes = 56 + 20 + 22;
// The checksum follows the content; names are UTF-8.
constexpr uint16_t kMemberFlags = 0x0808;
// The version of the format that knows 64-bit offsets.
constexpr uint16_t kZipVersion = 45;
constexpr uint16_t kPaddingField = 0x4246, kField64 = 1;
constexpr uint32_t kInField64 = 0xFFFFFFFF;

template <class Number>
void put(std::string& bytes, Number number) {
  char raw[sizeof(number)];
  std::memcpy(raw, &number, sizeof(number));
  bytes.append(raw, sizeof(number));
}

// --- the pickle: opcodes of protocol 2

void put_text(std::string& out, std::string_view text) {
  out += 'X';
  put(out, static_cast<uint32_t>(text.size()));
  out += text;
}

void put_number(std::string& out, int64_t number) {
  out += "\x8a\x08";
  put(out, number);
}

void put_numbers(std::string& out, const std::vector<int64_t>& numbers) {
  out += '(';
  for (const int64_t number : numbers) put_number(out, number);
  out += 't';
}

constexpr std::string_view kOrderedDict = "ccollections\nOrderedDict\n)R";

std::string_view storage_class(TensorType type) {
  switch (type) {
    case TensorType::kFloat32: return "FloatStorage";
    case TensorType::kFloat16: return "HalfStorage";
    case TensorType::kBFloat16: return "BFloat16Storage";
    case TensorType::kFloat64: return "DoubleStorage";
    case TensorType::kInt64: return "LongStorage";
    case TensorType::kInt32: return "IntStorage";
    case TensorType::kInt16: return "ShortStorage";
    case TensorType::kUint8: return "ByteStorage";
    case TensorType::kBool: return "BoolStorage";
  }
  return {};
}

int64_t num_values(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> row_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict())
void put_tensor(std::string& out, const SafetensorsEntry& entry, size_t key) {
  out += "ctorch._utils\n_rebuild_tensor_v2\n((";
  put_text(out, "storage");
  out += fmt::format("ctorch\n{}\n", storage_class(entry.type));
  put_text(out, std::to_string(key));
  put_text(out, "cpu");
  put_number(out, num_values(entry.shape));
  out += "tQ";
  put_number(out, 0);
  put_numbers(out, entry.shape);
  put_numbers(out, row_strides(entry.shape));
  out += '\x89';
  out += kOrderedDict;
  out += "tR";
}

std::string pickle_of(std::span<const SafetensorsEntry> entries) {
  std::string out = "\x80\x02";
  out += kOrderedDict;
  out += '(';
  for (size_t i = 0; i < entries.size(); ++i) {
    put_text(out, entries[i].name);
    put_tensor(out, entries[i], i);
  }
  return out + "u.";
}

// --- the zip archive

uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The extra field that moves a member's content to the alignment.
uint64_t padding_bytes(uint64_t offset, uint64_t name_bytes) {
  const uint64_t start = offset + kHeaderBytes + name_bytes + 4;
  return 4 + (kAlignment - start % kAlignment) % kAlignment;
}

std::string member_header(std::string_view name, uint64_t offset) {
  const uint64_t padding = padding_bytes(offset, name.size());
  std::string out;
  put(out, kMemberHeader);
  put(out, kZipVersion);
  put(out, kMemberFlags);
  out.append(2 + 4 + 12, '\0');
  put(out, static_cast<uint16_t>(name.size()));
  put(out, static_cast<uint16_t>(padding));
  out += name;
  put(out, kPaddingField);
  put(out, static_cast<uint16_t>(padding - 4));
  return out.append(padding - 4, 'Z');
}

std::string descriptor(uint32_t crc, uint64_t size) {
  std::string out;
  put(out, kDescriptor);
  put(out, crc);
  put(out, static_cast<uint32_t>(size));
  put(out, static_cast<uint32_t>(size));
  return out;
}

struct DirectoryEntry {
  std::string_view name;
  uint32_t crc = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
};

std::string directory_entry(const DirectoryEntry& entry) {
  std::string out;
  put(out, kDirectoryHeader);
  put(out, kZipVersion);
  put(out, kZipVersion);
  put(out, kMemberFlags);
  out.append(2 + 4, '\0');
  put(out, entry.crc);
  put(out, static_cast<uint32_t>(entry.size));
  put(out, static_cast<uint32_t>(entry.size));
  put(out, static_cast<uint16_t>(entry.name.size()));
  put(out, static_cast<uint16_t>(kExtra64Bytes));
  out.append(2 + 2 + 2 + 4, '\0');
  put(out, kInField64);
  out += entry.name;
  put(out, kField64);
  put(out, uint16_t{8});
  put(out, entry.offset);
  return out;
}

// Both ends of an archive: that of 64 bits, and the one that old programs look for.
std::string archive_ends(uint64_t num_members, uint64_t offset, uint64_t size) {
  std::string out;
  put(out, kArchiveEnd64);
  put(out, uint64_t{44});
  put(out, kZipVersion);
  put(out, kZipVersion);
  out.append(8, '\0');
  put(out, num_members);
  put(out, num_members);
  put(out, size);
  put(out, offset);
  put(out, kEndLocator64);
  out.append(4, '\0');
  put(out, offset + size);
  put(out, uint32_t{1});
  put(out, kArchiveEnd);
  out.append(4, '\0');
  out.append(4, '\xff');
  out.append(8, '\xff');
  out.append(2, '\0');
  return out;
}

}  // namespace

TorchWriter::TorchWriter(std::span<const SafetensorsEntry> entries, const std::string& name) {
  add({.name = name + "/data.pkl", .content = pickle_of(entries)});
  add({.name = name + "/byteorder", .content = "little"});
  for (size_t i = 0; i < entries.size(); ++i)
    add({.name = fmt::format("{}/data/{}", name, i),
         .values = entries[i].bytes,
         .is_tensor = true});
  add({.name = name + "/version", .content = "3\n"});
  size_ = members_size_ + kEndsBytes;
  for (const Member& member : members_) size_ += kEntryBytes + member.name.size() + kExtra64Bytes;
}

void TorchWriter::add(Member member) {
  SOTTO_ASSERT(member.size() < std::numeric_limits<uint32_t>::max(), "'{}' has {} bytes",
               member.name, member.size());
  member.offset = members_size_;
  members_size_ += kHeaderBytes + member.name.size() +
                   padding_bytes(member.offset, member.name.size()) + member.size() +
                   kDescriptorBytes;
  members_.push_back(std::move(member));
}

void TorchWriter::write(const ByteSink& sink, const FetchBytes& fetch) const {
  const auto put_bytes = [&](const std::string& bytes) { sink(std::as_bytes(std::span(bytes))); };
  std::string directory;
  for (const Member& member : members_) {
    put_bytes(member_header(member.name, member.offset));
    std::span<const std::byte> content = std::as_bytes(std::span(member.content));
    if (member.is_tensor) content = fetch ? fetch(member.values) : member.values;
    SOTTO_ASSERT(content.size() == member.size(), "'{}' has changed its size", member.name);
    sink(content);
    const uint32_t crc = crc_of(content);
    put_bytes(descriptor(crc, member.size()));
    directory += directory_entry(
        {.name = member.name, .crc = crc, .size = member.size(), .offset = member.offset});
  }
  put_bytes(directory);
  put_bytes(archive_ends(members_.size(), members_size_, directory.size()));
}

}  // namespace sotto
