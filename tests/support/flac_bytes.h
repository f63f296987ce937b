// FLAC streams for tests, bit by bit: what no encoder at hand writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sotto/data/audio/flac_bits.h"

namespace sotto::test {

class BitWriter {
 public:
  void put(uint64_t value, int count) {
    for (int bit = count - 1; bit >= 0; --bit) {
      if (num_bits_ % 8 == 0) bytes_.push_back(0);
      const auto set = static_cast<int>(value >> bit & 1) << (7 - num_bits_ % 8);
      bytes_.back() = static_cast<char>(bytes_.back() | set);
      ++num_bits_;
    }
  }
  void put_bytes(std::string_view bytes) {
    for (const char byte : bytes) put(static_cast<uint8_t>(byte), 8);
  }
  void align() { num_bits_ = bytes_.size() * 8; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  size_t num_bits_ = 0;
};

struct FlacForm {
  int64_t samples = 16;  // of the stream, as its header says
  int64_t block_size = 16;
  int channels = 1;
  int assignment = 0;  // of the channels in a frame
  // The number of a frame in a stream of blocks of one size, below 128; none: a block of its own
  // size, from sample 0 on.
  std::optional<int> number = {};
};

// A frame of 16 bits a sample, with the checksums that it should have; `subframes` end where a byte
// does.
inline std::string flac_frame(const std::string& subframes, const FlacForm& form = {}) {
  const auto bytes_of = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  BitWriter frame;
  frame.put(0x7ffc, 15);
  frame.put(form.number ? 0 : 1, 1);  // 1: blocks of variable size
  frame.put(7, 4);                    // block size behind the header, 16 bits
  frame.put(5, 4);                    // 16 kHz
  frame.put(static_cast<uint64_t>(form.assignment), 4);
  frame.put(4, 3);  // 16 bits
  frame.put(0, 1);
  frame.put(static_cast<uint64_t>(form.number.value_or(0)), 8);
  frame.put(static_cast<uint64_t>(form.block_size - 1), 16);
  frame.put(data::flac::crc8(bytes_of(frame.bytes())), 8);
  frame.put_bytes(subframes);
  frame.put(data::flac::crc16(bytes_of(frame.bytes())), 16);
  return frame.bytes();
}

inline std::string flac_stream(const std::string& frames, const FlacForm& form = {}) {
  BitWriter stream;
  stream.put_bytes("fLaC");
  stream.put(0x80, 8);
  stream.put(34, 24);
  for (int i = 0; i < 2; ++i) stream.put(static_cast<uint64_t>(form.block_size & 0xffff), 16);
  stream.put(0, 48);
  stream.put(16'000, 20);
  stream.put(static_cast<uint64_t>(form.channels - 1), 3);
  stream.put(15, 5);
  stream.put(static_cast<uint64_t>(form.samples), 36);
  stream.put_bytes(std::string(16, '\0'));
  return stream.bytes() + frames;
}

// 16 samples: a fixed predictor of order 1 whose residual is in two partitions without Rice's code,
// one of 5 bits a number and one of none.
inline std::string flac_subframe_without_rice() {
  BitWriter subframe;
  subframe.put(0b0'001001'0, 8);  // fixed, order 1
  subframe.put(1000, 16);
  subframe.put(0, 2);
  subframe.put(1, 4);  // two partitions
  subframe.put(15, 4);
  subframe.put(5, 5);
  for (const int residual : {-16, -1, 0, 1, 2, 3, 15}) subframe.put(residual & 31, 5);
  subframe.put(15, 4);
  subframe.put(0, 5);
  return subframe.bytes();
}

// A linear predictor of order 2 with a residual in Rice's code, 16 samples.
inline std::string flac_subframe_linear() {
  BitWriter subframe;
  subframe.put(0b0'100001'0, 8);
  for (const int sample : {100, 120}) subframe.put(static_cast<uint64_t>(sample), 16);
  subframe.put(12 - 1, 4);  // bits of a factor
  subframe.put(10, 5);      // shift
  for (const int factor : {1024, -512}) subframe.put(factor & 0xfff, 12);
  subframe.put(0, 2);
  subframe.put(0, 4);  // one partition
  subframe.put(3, 4);  // Rice's parameter
  for (int i = 0; i < 14; ++i) subframe.put(0b1'000 | (i % 8), 4);
  return subframe.bytes();
}

// A whole file of one channel at 16 kHz, in blocks of 4,096 samples as they are.
inline std::string flac_file(std::span<const int16_t> samples) {
  constexpr size_t kBlock = 4'096;
  FlacForm form{.samples = std::ssize(samples), .block_size = kBlock};
  std::string frames;
  for (size_t at = 0; at < samples.size(); at += kBlock) {
    const auto block = samples.subspan(at, std::min(kBlock, samples.size() - at));
    BitWriter subframe;
    subframe.put(0b0'000001'0, 8);  // without a predictor
    for (const int16_t sample : block) subframe.put(static_cast<uint16_t>(sample), 16);
    frames += flac_frame(subframe.bytes(), {.block_size = std::ssize(block),
                                            .number = static_cast<int>(at / kBlock)});
  }
  return flac_stream(frames, form);
}

}  // namespace sotto::test
