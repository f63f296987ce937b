#include "sotto/core/formats/tar_writer.h"

#include <fmt/format.h>

#include "sotto/core/error.h"

namespace sotto {

namespace {

// Header fields, as in POSIX.1-2017, pax, "ustar Interchange Format".
constexpr size_t kTarBlockBytes = 512;
constexpr size_t kMaxNameBytes = 100;
constexpr size_t kModeField = 100, kOwnerField = 108, kGroupField = 116, kSizeField = 124;
constexpr size_t kTimeField = 136, kSumField = 148, kTypeField = 156, kMagicField = 257;
constexpr size_t kNumSizeBytes = 12, kNumSumBytes = 8;
// Sizes beyond 11 octal digits have GNU's binary form.
constexpr uint64_t kMaxOctalSize = (uint64_t{1} << 33) - 1;

std::string size_field(uint64_t size) {
  if (size <= kMaxOctalSize) return fmt::format("{:011o}", size);
  std::string field(kNumSizeBytes, '\0');
  field[0] = '\x80';
  for (size_t i = kNumSizeBytes; i-- > 4; size >>= 8U) field[i] = static_cast<char>(size & 0xffU);
  return field;
}

}  // namespace

std::string tar_file_header(std::string_view name, uint64_t size) {
  SOTTO_ASSERT(name.size() <= kMaxNameBytes, "'{}' is too long for a tar archive", name);
  std::string header(kTarBlockBytes, '\0');
  const auto put = [&](size_t at, std::string_view text) { header.replace(at, text.size(), text); };
  put(0, name);
  put(kModeField, "0000644");
  put(kOwnerField, "0000000");
  put(kGroupField, "0000000");
  put(kSizeField, size_field(size));
  put(kTimeField, "00000000000");
  put(kTypeField, "0");
  put(kMagicField, std::string_view("ustar\0"
                                    "00",
                                    8));
  header.replace(kSumField, kNumSumBytes, kNumSumBytes, ' ');
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(kSumField, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

std::string tar_padding(uint64_t size) {
  return std::string((kTarBlockBytes - size % kTarBlockBytes) % kTarBlockBytes, '\0');
}

std::string tar_end_blocks() {
  return std::string(2 * kTarBlockBytes, '\0');
}

}  // namespace sotto
