// Tar archives for tests, byte by byte.
#pragma once

#include <fmt/format.h>

#include <string>

namespace sotto::test {

struct TarHeader {
  std::string name = "a.flac";
  // In octal digits, as a file says it.
  std::string size = {};
  char type = '0';
  std::string prefix = {};
  std::string magic = std::string(
      "ustar\0"
      "00",
      8);
};

inline constexpr size_t kTarBlock = 512;
inline constexpr size_t kTarMagicAt = 257;

// A header with the sum that it should have.
inline std::string with_tar_sum(std::string block) {
  constexpr size_t kSumAt = 148;
  block.replace(kSumAt, 8, 8, ' ');
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  return block.replace(kSumAt, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

inline std::string tar_header(const TarHeader& header) {
  std::string block(kTarBlock, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    block.replace(at, text.size(), text);
  };
  put(0, header.name.substr(0, 100));
  put(100, "0000644");
  put(124, header.size);
  put(136, "00000000000");
  block[156] = header.type;
  put(kTarMagicAt, header.magic);
  put(345, header.prefix);
  return with_tar_sum(block);
}

// A header and a content with its padding.
inline std::string tar_file(TarHeader header, const std::string& content) {
  if (header.size.empty()) header.size = fmt::format("{:011o}", content.size());
  return tar_header(header) + content + std::string((512 - content.size() % 512) % 512, '\0');
}

// "27 path=a/long/name.flac\n": the number counts itself.
inline std::string pax_record(const std::string& key, const std::string& value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (rest + fmt::format("{}", length).size() != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace sotto::test
