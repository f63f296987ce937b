// Bounds-checked sequential reader for bytes from untrusted files. Numbers are little-endian.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "sotto/core/files/mapped_file.h"

namespace sotto {

class ByteReader {
 public:
  // `part` names the bytes in errors: "its pickle". The path must outlive the reader.
  ByteReader(std::span<const std::byte> bytes, const std::filesystem::path& path,
             std::string_view part)
      : bytes_(bytes), path_(path), part_(part) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  // Returns the next bytes. Throws DataError where fewer remain.
  std::span<const std::byte> take(uint64_t count) {
    if (count > left()) {
      refuse_file(path_, fmt::format("{} ends after {} bytes", part_, bytes_.size()),
                  fmt::format("{} bytes starting at byte {}", count, at_));
    }
    const std::span<const std::byte> taken = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += taken.size();
    return taken;
  }

  std::string_view take_text(uint64_t count) {
    const std::span<const std::byte> taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  template <std::integral Number>
  Number take_number() {
    static_assert(std::endian::native == std::endian::little);
    Number number = 0;
    std::memcpy(&number, take(sizeof(number)).data(), sizeof(number));
    return number;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
  std::string_view part_;
  size_t at_ = 0;
};

}  // namespace sotto
