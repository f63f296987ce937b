#include "sotto/core/formats/zip_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "sotto/core/files/byte_reader.h"
#include "sotto/core/files/text_file.h"

namespace sotto {

namespace {

// Signatures and lengths of the records, from PKWARE's APPNOTE.TXT, sections 4.3.7 to 4.3.16.
constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kLocator64 = 0x07064b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocator64Bytes = 20;
constexpr size_t kMaxCommentBytes = 65535;
constexpr uint16_t kExtra64 = 1;
constexpr uint16_t kEncrypted = 1;
// Marks a number that is stored in the extra field.
constexpr uint32_t kElsewhere = 0xFFFFFFFF;

struct Directory {
  uint64_t num_entries = 0;
  uint64_t offset = 0;
};

struct Entry {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;
};

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> archive, const std::filesystem::path& path)
      : archive_(archive), path_(path) {}

  ZipEntries read() const {
    const Directory directory = find_directory();
    ByteReader in = reader_at(directory.offset);
    ZipEntries entries;
    for (uint64_t i = 0; i < directory.num_entries; ++i) {
      const Entry entry = read_entry(in);
      if (entry.flags % 2 == kEncrypted || entry.method != 0 || entry.packed_bytes != entry.bytes) {
        refuse_file(path_, fmt::format("its file '{}' is compressed or encrypted", entry.name),
                    "uncompressed files, as torch.save writes them");
      }
      if (!entries.emplace(entry.name, content_of(entry)).second) {
        refuse_file(path_, fmt::format("two files '{}' in it", entry.name), "each name once");
      }
    }
    return entries;
  }

 private:
  [[noreturn]] void broken(const std::string& found) const {
    refuse_file(path_, found, "a complete zip archive");
  }

  ByteReader reader_at(uint64_t offset) const {
    ByteReader reader(archive_, path_, "the archive");
    reader.take(offset);
    return reader;
  }

  bool is_at(size_t offset, uint32_t signature) const {
    return reader_at(offset).take_number<uint32_t>() == signature;
  }

  // Finds the record at the end of an archive, which a comment may follow.
  std::optional<size_t> find_end() const {
    if (archive_.size() < kEndBytes) return std::nullopt;
    const size_t last = archive_.size() - kEndBytes;
    for (size_t comment = 0; comment <= std::min(last, kMaxCommentBytes); ++comment) {
      const size_t at = last - comment;
      if (is_at(at, kEnd) && reader_at(at + 20).take_number<uint16_t>() == comment) return at;
    }
    return std::nullopt;
  }

  Directory find_directory() const {
    const std::optional<size_t> end = find_end();
    if (!end) broken("an archive without its end");
    if (*end >= kLocator64Bytes && is_at(*end - kLocator64Bytes, kLocator64)) {
      return find_directory64(*end - kLocator64Bytes);
    }
    ByteReader in = reader_at(*end + 10);
    Directory directory;
    directory.num_entries = in.take_number<uint16_t>();
    in.take(4);
    directory.offset = in.take_number<uint32_t>();
    return directory;
  }

  Directory find_directory64(size_t locator) const {
    const auto offset = reader_at(locator + 8).take_number<uint64_t>();
    ByteReader in = reader_at(offset);
    if (in.take_number<uint32_t>() != kEnd64) broken("an archive whose end is not where it says");
    in.take(28);
    Directory directory;
    directory.num_entries = in.take_number<uint64_t>();
    in.take(8);
    directory.offset = in.take_number<uint64_t>();
    return directory;
  }

  Entry read_entry(ByteReader& in) const {
    if (in.take_number<uint32_t>() != kDirectoryEntry) broken("a directory without its entries");
    Entry entry;
    in.take(4);
    entry.flags = in.take_number<uint16_t>();
    entry.method = in.take_number<uint16_t>();
    in.take(8);
    entry.packed_bytes = in.take_number<uint32_t>();
    entry.bytes = in.take_number<uint32_t>();
    const auto name_bytes = in.take_number<uint16_t>();
    const auto extra_bytes = in.take_number<uint16_t>();
    const auto comment_bytes = in.take_number<uint16_t>();
    in.take(8);
    entry.offset = in.take_number<uint32_t>();
    entry.name = in.take_text(name_bytes);
    if (!is_utf8(entry.name)) broken("a file whose name is not UTF-8");
    read_extra(ByteReader(in.take(extra_bytes), path_, "an extra field of the archive"), entry);
    in.take(comment_bytes);
    return entry;
  }

  // Reads numbers that need more than 32 bits, in the order of the format.
  static void read_extra(ByteReader in, Entry& entry) {
    while (in.left() >= 4) {
      const auto id = in.take_number<uint16_t>();
      const auto length = in.take_number<uint16_t>();
      if (id != kExtra64) {
        in.take(length);
        continue;
      }
      for (uint64_t* number : {&entry.bytes, &entry.packed_bytes, &entry.offset}) {
        if (*number == kElsewhere) *number = in.take_number<uint64_t>();
      }
      return;
    }
  }

  std::span<const std::byte> content_of(const Entry& entry) const {
    ByteReader in = reader_at(entry.offset);
    if (in.take_number<uint32_t>() != kLocalHeader) {
      broken(fmt::format("the file '{}' is not where it should be", entry.name));
    }
    in.take(22);
    const auto name_bytes = in.take_number<uint16_t>();
    const auto extra_bytes = in.take_number<uint16_t>();
    in.take(uint64_t{name_bytes} + extra_bytes);
    return in.take(entry.bytes);
  }

  std::span<const std::byte> archive_;
  const std::filesystem::path& path_;
};

}  // namespace

ZipEntries read_zip(std::span<const std::byte> archive, const std::filesystem::path& path) {
  return ZipReader(archive, path).read();
}

}  // namespace sotto
