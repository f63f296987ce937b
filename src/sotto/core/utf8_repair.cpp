#include "sotto/core/utf8_repair.h"

#include <algorithm>
#include <cstddef>

namespace sotto {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The bytes of a character: how many, and which may be the second (Unicode, table 3-7).
struct Utf8Form {
  size_t size = 0;
  unsigned char lowest = 0x80;
  unsigned char highest = 0xBF;
};

Utf8Form form_of(unsigned char lead) {
  if (lead < 0x80) return {.size = 1};
  if (lead >= 0xC2 && lead <= 0xDF) return {.size = 2};
  if (lead == 0xE0) return {.size = 3, .lowest = 0xA0};
  if (lead == 0xED) return {.size = 3, .highest = 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {.size = 3};
  if (lead == 0xF0) return {.size = 4, .lowest = 0x90};
  if (lead == 0xF4) return {.size = 4, .highest = 0x8F};
  if (lead >= 0xF1 && lead <= 0xF3) return {.size = 4};
  return {};
}

// Returns how many bytes at the beginning belong together.
size_t valid_prefix(std::string_view bytes, const Utf8Form& form) {
  size_t size = 1;
  Utf8Form range = form;
  while (size < std::min(form.size, bytes.size())) {
    const auto byte = static_cast<unsigned char>(bytes[size]);
    if (byte < range.lowest || byte > range.highest) break;
    range = {};
    ++size;
  }
  return size;
}

}  // namespace

std::string repaired_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + kReplacement.size());
  while (!bytes.empty()) {
    const Utf8Form form = form_of(static_cast<unsigned char>(bytes.front()));
    const size_t size = form.size == 0 ? 1 : valid_prefix(bytes, form);
    text += size == form.size ? bytes.substr(0, size) : kReplacement;
    bytes.remove_prefix(size);
  }
  return text;
}

}  // namespace sotto
