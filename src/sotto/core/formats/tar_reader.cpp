#include "sotto/core/formats/tar_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "sotto/core/files/mapped_file.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/hash.h"

namespace sotto {

namespace {

// Header fields, as in POSIX.1-2017, pax, "ustar Interchange Format".
constexpr size_t kBlock = 512;
constexpr size_t kNameBytes = 100;
constexpr size_t kSizeAt = 124;
constexpr size_t kNumberBytes = 12;
constexpr size_t kChecksumAt = 148;
constexpr size_t kChecksumBytes = 8;
constexpr size_t kTypeAt = 156;
constexpr size_t kMagicAt = 257;
constexpr size_t kPrefixAt = 345;
constexpr size_t kPrefixBytes = 155;
// Names and pax records are small; a larger size is invalid.
constexpr uint64_t kMaxExtendedBytes = uint64_t{1} << 20;

constexpr const char* kTar = "a complete tar archive";

// Returns the part before the first zero byte.
std::string_view until_zero(std::string_view field) {
  return field.substr(0, field.find('\0'));
}

// Attributes of a file from the extended headers before its own.
struct Extended {
  std::optional<std::string> name;
  std::optional<uint64_t> size;
};

// An archive in memory or in a file: its size, and access to its bytes, which are valid until the
// next fetch.
struct TarBytes {
  uint64_t size = 0;
  std::function<std::string_view(uint64_t offset, size_t count)> fetch;
};

TarBytes bytes_in(std::span<const std::byte> archive) {
  return {.size = archive.size(), .fetch = [archive](uint64_t offset, size_t count) {
            return std::string_view(reinterpret_cast<const char*>(archive.data()) + offset, count);
          }};
}

// The file must outlive the result.
TarBytes bytes_in(const InputFile& file) {
  return {.size = static_cast<uint64_t>(file.size()),
          .fetch = [&file, room = std::string()](uint64_t offset, size_t count) mutable {
            room.resize(count);
            file.read_all(static_cast<int64_t>(offset), room);
            return std::string_view(room);
          }};
}

class TarWalker {
 public:
  TarWalker(TarBytes archive, const std::filesystem::path& path, size_t offset)
      : archive_(std::move(archive)), at_(offset), path_(path) {}

  // Returns the next regular file and the offset of its headers; std::nullopt at the end.
  std::optional<std::pair<TarEntry, size_t>> next() {
    Extended extended;
    size_t first = at_;
    while (true) {
      const std::optional<std::string> header = take_header();
      if (!header) {
        if (extended.name || extended.size) broken("a long name without its file");
        return std::nullopt;
      }
      const char type = (*header)[kTypeAt];
      // A type without content may still have a size; old archives do so for links.
      const bool has_content = std::string_view("123456").find(type) == std::string_view::npos;
      const uint64_t size = extended.size.value_or(number_at(*header));
      const uint64_t content = skip_content(has_content ? size : 0);
      if (type == 'L' || type == 'x') {
        read_extended(type, content, size, extended);
        continue;
      }
      if (type == 'S') broken("a sparse file");
      const bool is_file = type == '0' || type == '\0' || type == '7';
      // Folders, links, devices, and GNU long link names are ignored.
      if (is_file)
        return std::pair(
            TarEntry{.name = name_of(*header, extended), .offset = content, .size = size}, first);
      if (type != 'K' && type != 'g') extended = {};
      if (!extended.name && !extended.size) first = at_;
    }
  }

 private:
  [[noreturn]] void broken(const std::string& found) const {
    refuse_file(path_, fmt::format("byte {}: {}", at_, found), kTar);
  }

  // Skips the next bytes; returns their offset.
  uint64_t pass(uint64_t count) {
    if (count > archive_.size - at_) {
      refuse_file(path_, fmt::format("the archive ends after {} bytes", archive_.size),
                  fmt::format("{} bytes starting at byte {}", count, at_));
    }
    return std::exchange(at_, at_ + count);
  }

  // Returns std::nullopt at the end, which is a block of zeros or the end of the file.
  std::optional<std::string> take_header() {
    if (at_ == archive_.size) return std::nullopt;
    std::string header(archive_.fetch(pass(kBlock), kBlock));
    if (header.find_first_not_of('\0') == std::string_view::npos) return std::nullopt;
    check_sum(header);
    return header;
  }

  void check_sum(std::string_view header) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      const bool is_sum = i >= kChecksumAt && i < kChecksumAt + kChecksumBytes;
      sum += is_sum ? ' ' : static_cast<unsigned char>(header[i]);
    }
    if (octal(header.substr(kChecksumAt, kChecksumBytes)) != sum)
      broken("a header with a wrong checksum");
  }

  // Parses octal digits surrounded by blanks and zeros.
  uint64_t octal(std::string_view field) const {
    const size_t first = std::min(field.find_first_not_of(' '), field.size());
    field = field.substr(first);
    field = field.substr(0, field.find_first_of(std::string_view(" \0", 2)));
    uint64_t number = 0;
    const auto [last, code] = std::from_chars(field.data(), field.data() + field.size(), number, 8);
    if (field.empty() || code != std::errc{} || last != field.data() + field.size())
      broken("a header without its numbers");
    return number;
  }

  // Returns the size of the content: in octal, or for larger sizes in GNU's binary form, marked by
  // a set high bit.
  uint64_t number_at(std::string_view header) const {
    const std::string_view field = header.substr(kSizeAt, kNumberBytes);
    if (static_cast<unsigned char>(field[0]) != 0x80) return octal(field);
    uint64_t number = 0;
    for (const char byte : field.substr(1)) {
      if (number >> 56U != 0) broken("an implausible file size");
      number = number << 8U | static_cast<unsigned char>(byte);
    }
    return number;
  }

  // Skips the content and its padding, which the last file may lack.
  uint64_t skip_content(uint64_t size) {
    const uint64_t content = pass(size);
    const uint64_t padding = (kBlock - size % kBlock) % kBlock;
    pass(std::min(padding, archive_.size - at_));
    return content;
  }

  void read_extended(char type, uint64_t content, uint64_t size, Extended& extended) const {
    if (size > kMaxExtendedBytes) broken("a name of more than 1 MiB");
    const std::string_view text = archive_.fetch(content, static_cast<size_t>(size));
    if (type == 'L') {
      extended.name = until_zero(text);
    } else {
      read_pax(text, extended);
    }
  }

  // Parses records of the form "27 path=a/long/name.flac\n", where the number is the length of the
  // record.
  void read_pax(std::string_view records, Extended& extended) const {
    while (!records.empty()) {
      size_t length = 0;
      const auto [digits_end, code] =
          std::from_chars(records.data(), records.data() + records.size(), length);
      const auto digits = static_cast<size_t>(digits_end - records.data());
      if (code != std::errc{} || length > records.size() || length < digits + 3 ||
          records[digits] != ' ' || records[length - 1] != '\n')
        broken("an invalid pax header");
      const std::string_view record = records.substr(digits + 1, length - digits - 2);
      const size_t equals = record.find('=');
      if (equals == std::string_view::npos) broken("a pax header without a value");
      take_record(record.substr(0, equals), record.substr(equals + 1), extended);
      records.remove_prefix(length);
    }
  }

  void take_record(std::string_view key, std::string_view value, Extended& extended) const {
    if (key == "path") extended.name = std::string(value);
    if (key.starts_with("GNU.sparse.")) broken("a sparse file");
    if (key != "size") return;
    uint64_t size = 0;
    const auto [last, code] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (value.empty() || code != std::errc{} || last != value.data() + value.size())
      broken("a pax header without a size");
    extended.size = size;
  }

  std::string name_of(std::string_view header, const Extended& extended) const {
    std::string name =
        extended.name.value_or(std::string(until_zero(header.substr(0, kNameBytes))));
    // Archives with GNU's old magic store other data in place of the prefix.
    const bool is_ustar = header.substr(kMagicAt, 6) == std::string_view("ustar\0", 6);
    const std::string_view prefix = until_zero(header.substr(kPrefixAt, kPrefixBytes));
    if (!extended.name && is_ustar && !prefix.empty()) name = fmt::format("{}/{}", prefix, name);
    while (name.starts_with("./")) name.erase(0, 2);
    if (name.empty()) broken("a file without a name");
    if (name.find('\0') != std::string::npos || !is_utf8(name))
      broken("a file whose name is not UTF-8");
    return name;
  }

  TarBytes archive_;
  uint64_t at_ = 0;
  const std::filesystem::path& path_;
};

// Compressed archives do not support random access.
void check_not_compressed(const InputFile& file) {
  std::array<char, 4> bytes{};
  const auto got = static_cast<size_t>(file.read(0, bytes));
  const std::string_view front(bytes.data(), got);
  for (const std::string_view magic : {"\x1f\x8b", "BZh", "\xfd\x37zX", "\x28\xb5\x2f\xfd"}) {
    if (front.starts_with(magic))
      refuse_file(file.path(), "it is compressed", "an uncompressed tar archive",
                  "Unpack it first (gunzip, bunzip2, unxz, unzstd): audio is compressed already.");
  }
}

}  // namespace

namespace {

void walk(const TarBytes& archive, const std::filesystem::path& path,
          const std::function<void(const TarEntry&, size_t)>& visit) {
  TarWalker walker(archive, path, 0);
  while (const auto entry = walker.next()) visit(entry->first, entry->second);
}

}  // namespace

void walk_tar(std::span<const std::byte> archive, const std::filesystem::path& path,
              const std::function<void(const TarEntry&, size_t)>& visit) {
  walk(bytes_in(archive), path, visit);
}

TarFile TarFile::open(const std::filesystem::path& path) {
  TarFile tar(InputFile::open(path, "a tar archive"));
  if (tar.file_.size() == 0) refuse_file(path, "the file is empty", "a tar archive");
  check_not_compressed(tar.file_);
  walk(bytes_in(tar.file_), path, [&](const TarEntry& entry, size_t offset) {
    tar.index_.push_back({.name_hash = fnv1a(entry.name), .offset = offset});
  });
  std::ranges::sort(tar.index_, {},
                    [](const Entry& at) { return std::pair(at.name_hash, at.offset); });
  for (size_t i = 1; i < tar.index_.size(); ++i) {
    if (tar.index_[i - 1].name_hash != tar.index_[i].name_hash) continue;
    const std::string name = tar.entry_at(tar.index_[i].offset).name;
    if (tar.entry_at(tar.index_[i - 1].offset).name == name)
      refuse_file(path, fmt::format("two files '{}' in it", name), "each name once");
  }
  return tar;
}

TarEntry TarFile::entry_at(size_t offset) const {
  const auto entry = TarWalker(bytes_in(file_), path(), offset).next();
  if (!entry) refuse_file(path(), "it has changed since it was opened", kTar);
  return entry->first;
}

std::optional<FilePart> TarFile::find(std::string_view name) const {
  const uint64_t hash = fnv1a(name);
  auto at = std::ranges::lower_bound(index_, hash, {}, &Entry::name_hash);
  for (; at != index_.end() && at->name_hash == hash; ++at) {
    const TarEntry entry = entry_at(at->offset);
    if (entry.name != name) continue;
    return FilePart{.file = &file_,
                    .offset = static_cast<int64_t>(entry.offset),
                    .size = static_cast<int64_t>(entry.size)};
  }
  return std::nullopt;
}

}  // namespace sotto
