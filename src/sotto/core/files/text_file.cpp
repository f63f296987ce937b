#include "sotto/core/files/text_file.h"

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <system_error>

#include "sotto/core/error.h"

namespace sotto {

namespace {

constexpr size_t kMaxTextBytes = size_t{16} << 20;

[[noreturn]] void throw_unreadable(const std::filesystem::path& path, const std::string& found) {
  throw DataError({.attempted = fmt::format("reading {}", path.string()),
                   .found = found,
                   .expected = "a text file in UTF-8"});
}

// Returns the length of the UTF-8 sequence that begins with `lead`; 0 if `lead` is invalid.
size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

std::string read_bytes(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_unreadable(path, std::generic_category().message(errno));
  // The file is read in pieces because a pipe has no known size.
  constexpr size_t kPieceBytes = size_t{64} << 10;
  std::string text;
  while (file && text.size() <= kMaxTextBytes) {
    const size_t before = text.size();
    text.resize(before + kPieceBytes);
    file.read(text.data() + before, kPieceBytes);
    text.resize(before + static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) throw_unreadable(path, "it could not be read");
  return text;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = sequence_length(static_cast<unsigned char>(text[at]));
    if (length == 0 || at + length > text.size()) return false;
    uint32_t code = static_cast<unsigned char>(text[at]) & (0xFFU >> length);
    for (size_t i = 1; i < length; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      if ((next & 0xC0U) != 0x80U) return false;
      code = code << 6U | (next & 0x3FU);
    }
    if (length == 3 && (code < 0x800 || (code >= 0xD800 && code < 0xE000))) return false;
    if (length == 4 && (code < 0x10000 || code > 0x10FFFF)) return false;
    at += length;
  }
  return true;
}

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw_unreadable(path, "it is a folder");
  std::string text = read_bytes(path);
  if (text.empty()) throw_unreadable(path, "the file is empty");
  if (text.size() > kMaxTextBytes) throw_unreadable(path, "it is larger than 16 MiB");
  if (text.find('\0') != std::string::npos) throw_unreadable(path, "it is a binary file");
  if (!is_utf8(text)) throw_unreadable(path, "it is not UTF-8");
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

}  // namespace sotto
