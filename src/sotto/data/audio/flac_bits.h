// Bit reader and checksums of FLAC streams. Part of flac_decoder.cpp: nothing else includes it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sotto::data::flac {

// Reads numbers from bytes, most significant bit first. Past the end it returns zeros; callers must
// check is_past_end() before they use a result.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // Returns up to 32 bits.
  uint64_t take(int count) {
    if (count == 0) return 0;
    if (count_ < count) refill();
    const uint64_t value = window_ >> (64 - count);
    consume(count);
    return value;
  }

  int32_t take_signed(int count) {
    if (count == 0) return 0;
    const auto high = static_cast<uint32_t>(take(count) << (32 - count));
    return static_cast<int32_t>(high) >> (32 - count);
  }

  // Counts the zeros before a one, and consumes the one.
  int take_unary() {
    for (int zeros = 0;;) {
      refill();
      const int found = std::countl_zero(window_);
      if (found < count_) {
        consume(found + 1);
        return zeros + found;
      }
      zeros += count_;
      consume(count_);
      if (is_past_end()) return zeros;
    }
  }

  // Reads Rice-coded numbers: a unary quotient, `parameter` bits of remainder, the sign in the
  // lowest bit. Returns false if one has more than 32 bits.
  bool take_rice(std::span<int32_t> to, int parameter) {
    // Refills the bits for this many numbers at a time, which are usually enough: a test for each
    // number would be unpredictable, which costs more than some needless refills.
    return parameter <= 9 ? take_rice_numbers<4>(to, parameter)
                          : take_rice_numbers<2>(to, parameter);
  }

  void skip_to_byte() { consume(count_ % 8); }

  void skip_bytes(int count) {
    for (int i = 0; i < count; ++i) take(8);
  }

  // Returns the position of the next bit, which must be the start of a byte.
  size_t byte_position() const { return at_ - static_cast<size_t>(count_ / 8); }

  bool is_past_end() const { return byte_position() > bytes_.size(); }

  std::span<const std::byte> bytes(size_t begin, size_t end) const {
    return bytes_.subspan(begin, end - begin);
  }

 private:
  // Passed by value, so that the reader of a loop need not be in memory for the sake of a rare
  // call.
  struct LongNumber;
  [[gnu::cold]] static LongNumber take_long_number(BitReader reader, int parameter);

  // Reads one number; the reader has bits, but perhaps too few.
  [[gnu::always_inline]] uint64_t take_rice_number(int parameter);

  template <size_t kAtOnce>
  bool take_rice_numbers(std::span<int32_t> to, int parameter);

  void consume(int count) {
    window_ <<= count;
    count_ -= count;
  }

  // Provides at least 56 bits. Loads eight bytes at once if there are that many: the bits in the
  // window beyond its count are also the next bits, and are loaded again.
  void refill() {
    if (at_ + 8 <= bytes_.size()) [[likely]] {
      uint64_t next = 0;
      std::memcpy(&next, bytes_.data() + at_, sizeof(next));
      if constexpr (std::endian::native == std::endian::little) next = __builtin_bswap64(next);
      window_ |= next >> count_;
      at_ += static_cast<size_t>(63 - count_) / 8;
      count_ |= 56;
      return;
    }
    for (; count_ < 56; count_ += 8, ++at_) {
      const auto byte = at_ < bytes_.size() ? static_cast<uint64_t>(bytes_[at_]) : 0;
      window_ |= byte << (56 - count_);
    }
  }

  std::span<const std::byte> bytes_;
  uint64_t window_ = 0;  // the next bits, from the highest down
  int count_ = 0;        // number of valid bits, below 64
  size_t at_ = 0;        // the byte after them
};

struct BitReader::LongNumber {
  uint64_t number;
  BitReader reader;
};

inline BitReader::LongNumber BitReader::take_long_number(BitReader reader, int parameter) {
  const auto quotient = static_cast<uint64_t>(reader.take_unary());
  const uint64_t number = quotient << parameter | reader.take(parameter);
  return {number, reader};
}

inline uint64_t BitReader::take_rice_number(int parameter) {
  const auto quotient = static_cast<uint64_t>(std::countl_zero(window_));
  const int size = static_cast<int>(quotient) + 1 + parameter;
  if (size > count_) [[unlikely]] {
    const LongNumber taken = take_long_number(*this, parameter);
    *this = taken.reader;
    return taken.number;
  }
  const uint64_t rest = window_ << quotient << 1;
  window_ = rest << parameter;
  count_ -= size;
  return quotient << parameter | rest >> 1 >> (63 - parameter);
}

template <size_t kAtOnce>
bool BitReader::take_rice_numbers(std::span<int32_t> to, int parameter) {
  BitReader now = *this;
  uint64_t all = 0;
  const auto take_one = [&](int32_t& value) {
    const uint64_t number = now.take_rice_number(parameter);
    all |= number;
    value = static_cast<int32_t>(number >> 1) ^ -static_cast<int32_t>(number & 1);
  };
  size_t i = 0;
  for (; i + kAtOnce <= to.size(); i += kAtOnce) {
    now.refill();
#pragma GCC unroll 4
    for (size_t j = 0; j < kAtOnce; ++j) take_one(to[i + j]);
  }
  for (; i < to.size(); ++i) {
    now.refill();
    take_one(to[i]);
  }
  *this = now;
  return all >> 32 == 0;
}

// CRC of headers: x^8 + x^2 + x + 1.
inline uint8_t crc8(std::span<const std::byte> bytes) {
  uint32_t crc = 0;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x80) != 0 ? 0x107 : 0);
  }
  return static_cast<uint8_t>(crc);
}

// Tables of x^16 + x^15 + x^2 + 1: [n][b] is the CRC of byte b followed by n zeros.
using CrcTables = std::array<std::array<uint16_t, 256>, 8>;

constexpr CrcTables make_crc_tables() {
  CrcTables tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte << 8;
    for (size_t zeros = 0; zeros < tables.size(); ++zeros) {
      for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x18005 : 0);
      tables[zeros][byte] = static_cast<uint16_t>(crc);
    }
  }
  return tables;
}

// CRC of frames; eight bytes at a time.
inline uint16_t crc16(std::span<const std::byte> bytes) {
  static constexpr CrcTables kTables = make_crc_tables();
  uint32_t crc = 0;
  while (bytes.size() >= 8) {
    const auto entry = [&](size_t i, uint32_t with) {
      return uint32_t{kTables[7 - i][static_cast<uint32_t>(bytes[i]) ^ with]};
    };
    crc = entry(0, crc >> 8) ^ entry(1, crc & 0xff) ^ entry(2, 0) ^ entry(3, 0) ^ entry(4, 0) ^
          entry(5, 0) ^ entry(6, 0) ^ entry(7, 0);
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes)
    crc = (crc << 8 & 0xffff) ^ kTables[0][(crc >> 8) ^ static_cast<uint32_t>(byte)];
  return static_cast<uint16_t>(crc);
}

}  // namespace sotto::data::flac
