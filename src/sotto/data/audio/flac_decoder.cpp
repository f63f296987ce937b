// Implements RFC 9639 and uses its terms: a stream is a header and frames, a frame has a subframe
// per channel, a subframe is a predictor and its residual.
#include "sotto/data/audio/flac_decoder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "sotto/data/audio/flac_bits.h"

namespace sotto::data {

namespace {

using flac::BitReader;

constexpr int kMaxOrder = 32;
// Highest order with unrolled code; encoders do not exceed it by default.
constexpr int kMaxUnrolledOrder = 12;

struct FrameHeader {
  int64_t block_size = 0;
  // 0 to 7: number of channels minus one; 8 to 10: stereo as below.
  int assignment = 0;

  static constexpr int kLeftSide = 8, kSideRight = 9, kMidSide = 10;
};

// --- stream header

constexpr uint64_t kMarker = 0x664c6143;  // "fLaC"
constexpr size_t kBlockHeader = 4;
constexpr size_t kInfoSize = 34;

// Reads a STREAMINFO block; the reader is positioned after the block's header.
FlacInfo read_info_block(BitReader& block) {
  block.skip_bytes(10);
  FlacInfo info;
  info.sample_rate = static_cast<int64_t>(block.take(20));
  info.channels = static_cast<int64_t>(block.take(3)) + 1;
  info.bits = static_cast<int>(block.take(5)) + 1;
  info.samples = static_cast<int64_t>(block.take(4) << 32);
  info.samples |= static_cast<int64_t>(block.take(32));
  return info;
}

// Reads the STREAMINFO block and sets `at` to the end of the metadata.
std::optional<FlacInfo> read_metadata(std::span<const std::byte> stream, size_t& at) {
  BitReader bits(stream);
  if (stream.size() < kBlockHeader || bits.take(32) != kMarker) return std::nullopt;
  at = 4;
  std::optional<FlacInfo> info;
  for (bool is_last = false; !is_last;) {
    if (stream.size() - at < kBlockHeader) return std::nullopt;
    BitReader block(stream.subspan(at));
    is_last = block.take(1) != 0;
    const bool is_info = block.take(7) == 0;
    const size_t size = block.take(24);
    at += kBlockHeader;
    if (stream.size() - at < size) return std::nullopt;
    if (is_info && size == kInfoSize) info = read_info_block(block);
    at += size;
  }
  return info;
}

// --- frame header

// Reads the number of the frame, or of its first sample, coded like UTF-8.
std::optional<uint64_t> read_number(BitReader& bits) {
  const uint64_t first = bits.take(8);
  const int ones = std::countl_one(static_cast<uint8_t>(first));
  if (ones == 0) return first;
  if (ones == 1 || ones == 8) return std::nullopt;
  uint64_t number = first & (0x7fu >> ones);
  for (int i = 1; i < ones; ++i) {
    const uint64_t next = bits.take(8);
    if (next >> 6 != 2) return std::nullopt;
    number = number << 6 | (next & 0x3f);
  }
  return number;
}

int64_t block_size_of(uint64_t code, BitReader& bits) {
  if (code == 1) return 192;
  if (code >= 2 && code <= 5) return int64_t{576} << (code - 2);
  if (code == 6) return static_cast<int64_t>(bits.take(8)) + 1;
  if (code == 7) return static_cast<int64_t>(bits.take(16)) + 1;
  return code >= 8 ? int64_t{256} << (code - 8) : 0;
}

int sample_bits_of(uint64_t code, const FlacInfo& info) {
  constexpr std::array kBits = {0, 8, 12, -1, 16, 20, 24, 32};
  return code == 0 ? info.bits : kBits[code];
}

// `position` is the number of samples before this frame, `first_size` the block size of the first
// frame: streams with a fixed block size number their frames in units of it.
std::optional<FrameHeader> read_frame_header(BitReader& bits, const FlacInfo& info,
                                             int64_t position, int64_t first_size) {
  const size_t begin = bits.byte_position();
  if (bits.take(15) != 0x7ffc) return std::nullopt;
  const bool is_variable = bits.take(1) != 0;
  const uint64_t size_code = bits.take(4);
  const uint64_t rate_code = bits.take(4);
  const auto assignment = static_cast<int>(bits.take(4));
  const uint64_t bits_code = bits.take(3);
  if (bits.take(1) != 0 || size_code == 0 || rate_code == 15) return std::nullopt;
  const std::optional<uint64_t> number = read_number(bits);
  const FrameHeader header{.block_size = block_size_of(size_code, bits), .assignment = assignment};
  if (rate_code >= 12) bits.take(rate_code == 12 ? 8 : 16);
  const size_t end = bits.byte_position();
  const auto checksum = static_cast<uint8_t>(bits.take(8));
  if (bits.is_past_end() || flac::crc8(bits.bytes(begin, end)) != checksum) return std::nullopt;
  const int64_t channels = assignment >= FrameHeader::kLeftSide ? 2 : assignment + 1;
  const bool is_as_stream = assignment <= FrameHeader::kMidSide && channels == info.channels &&
                            sample_bits_of(bits_code, info) == info.bits;
  const int64_t unit = is_variable ? 1 : first_size == 0 ? header.block_size : first_size;
  if (!is_as_stream || !number || static_cast<int64_t>(*number) * unit != position)
    return std::nullopt;
  return header;
}

// --- subframes

struct Predictor {
  int order = 0;
  int shift = 0;
  std::array<int32_t, kMaxOrder> factors = {};  // for the preceding samples, latest first
};

// Replaces residuals by samples; the first `order` values are samples already. Sums are unsigned,
// because broken streams may overflow, which the checksum detects. The latest sample's term is
// added last, because it is available last.
template <class Sum, class Order>
void restore(std::span<int32_t> samples, const Predictor& predictor, Order order) {
  std::array<Sum, kMaxOrder> factors = {};
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = static_cast<Sum>(predictor.factors[i]);
  int32_t* x = samples.data() + order;
  for (int32_t* const end = samples.data() + samples.size(); x < end; ++x) {
    Sum sum = 0;
#pragma GCC unroll 12
    for (int j = order; j > 0; --j)
      sum += factors[static_cast<size_t>(j) - 1] * static_cast<Sum>(x[-j]);
    const auto predicted = static_cast<std::make_signed_t<Sum>>(sum) >> predictor.shift;
    *x = static_cast<int32_t>(static_cast<uint32_t>(*x) + static_cast<uint32_t>(predicted));
  }
}

template <class Sum, size_t... kOrders>
void restore_by_order(std::span<int32_t> samples, const Predictor& predictor,
                      std::index_sequence<kOrders...>) {
  using Function = void (*)(std::span<int32_t>, const Predictor&);
  static constexpr std::array<Function, sizeof...(kOrders)> kFunctions = {
      [](std::span<int32_t> x, const Predictor& p) {
        restore<Sum>(x, p, std::integral_constant<int, static_cast<int>(kOrders)>());
      }...};
  const auto order = static_cast<size_t>(predictor.order);
  if (order < kFunctions.size()) return kFunctions[order](samples, predictor);
  restore<Sum>(samples, predictor, predictor.order);
}

// `bits` is the number of bits of a sample plus that of a factor.
void restore_samples(std::span<int32_t> samples, const Predictor& predictor, int bits) {
  const auto orders = std::make_index_sequence<kMaxUnrolledOrder + 1>();
  const int sum_bits =
      bits + static_cast<int>(std::bit_width(static_cast<unsigned>(predictor.order)));
  if (sum_bits <= 32) return restore_by_order<uint32_t>(samples, predictor, orders);
  restore_by_order<uint64_t>(samples, predictor, orders);
}

bool read_residual(BitReader& bits, int order, std::span<int32_t> samples) {
  const uint64_t method = bits.take(2);
  const auto partition_order = static_cast<int>(bits.take(4));
  const size_t partition = samples.size() >> partition_order;
  if (method > 1 || partition << partition_order != samples.size() ||
      partition < static_cast<size_t>(order))
    return false;
  const int parameter_bits = method == 0 ? 4 : 5;
  const uint64_t escape = (uint64_t{1} << parameter_bits) - 1;
  auto first = static_cast<size_t>(order);
  for (size_t end = partition; end <= samples.size(); end += partition) {
    const uint64_t parameter = bits.take(parameter_bits);
    const std::span<int32_t> part = samples.subspan(first, end - first);
    if (parameter != escape) {
      if (!bits.take_rice(part, static_cast<int>(parameter))) return false;
    } else {
      const auto width = static_cast<int>(bits.take(5));
      for (int32_t& value : part) value = bits.take_signed(width);
    }
    if (bits.is_past_end()) return false;
    first = end;
  }
  return true;
}

bool read_linear(BitReader& bits, int width, int order, std::span<int32_t> samples) {
  for (int32_t& x : samples.first(static_cast<size_t>(order))) x = bits.take_signed(width);
  const int precision = static_cast<int>(bits.take(4)) + 1;
  Predictor predictor{.order = order, .shift = bits.take_signed(5)};
  if (precision == 16 || predictor.shift < 0) return false;
  for (int i = 0; i < order; ++i)
    predictor.factors[static_cast<size_t>(i)] = bits.take_signed(precision);
  if (!read_residual(bits, order, samples)) return false;
  restore_samples(samples, predictor, width + precision);
  return true;
}

bool read_fixed(BitReader& bits, int width, int order, std::span<int32_t> samples) {
  constexpr std::array<std::array<int32_t, 4>, 5> kFactors = {
      {{}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}}};
  for (int32_t& x : samples.first(static_cast<size_t>(order))) x = bits.take_signed(width);
  if (!read_residual(bits, order, samples)) return false;
  Predictor predictor{.order = order};
  std::ranges::copy(kFactors[static_cast<size_t>(order)], predictor.factors.begin());
  restore_samples(samples, predictor, width + 4);
  return true;
}

bool read_subframe(BitReader& bits, int width, std::span<int32_t> samples) {
  if (bits.take(1) != 0) return false;
  const auto type = static_cast<int>(bits.take(6));
  // Number of trailing zero bits common to all samples, which are not stored.
  const int wasted = bits.take(1) != 0 ? bits.take_unary() + 1 : 0;
  width -= wasted;
  const int order = type >= 32 ? type - 31 : type - 8;
  if (width < 1 || order > static_cast<int>(samples.size())) return false;
  if (type == 0) {
    std::ranges::fill(samples, bits.take_signed(width));
  } else if (type == 1) {
    for (int32_t& x : samples) x = bits.take_signed(width);
  } else if (type >= 8 && type <= 12) {
    if (!read_fixed(bits, width, order, samples)) return false;
  } else if (type >= 32) {
    if (!read_linear(bits, width, order, samples)) return false;
  } else {
    return false;
  }
  if (wasted > 0) {
    for (int32_t& x : samples) x = static_cast<int32_t>(static_cast<uint32_t>(x) << wasted);
  }
  return !bits.is_past_end();
}

// --- frames

class FrameReader {
 public:
  FrameReader(std::span<const std::byte> frames, const FlacInfo& info)
      : bits_(frames), info_(info) {}

  const FlacInfo& info() const { return info_; }
  // Returns the number of samples decoded so far.
  int64_t position() const { return position_; }

  // Appends the samples of the next frame.
  bool read_frame(std::vector<float>& all) {
    const size_t begin = bits_.byte_position();
    const std::optional<FrameHeader> header =
        read_frame_header(bits_, info_, position_, first_size_);
    if (!header || header->block_size > info_.samples - position_) return false;
    if (first_size_ == 0) first_size_ = header->block_size;
    const auto size = static_cast<size_t>(header->block_size);
    if (samples_.size() < size * static_cast<size_t>(info_.channels))
      samples_.resize(size * static_cast<size_t>(info_.channels));
    for (int64_t c = 0; c < info_.channels; ++c) {
      // The difference of two channels needs one more bit.
      const bool is_side = header->assignment == FrameHeader::kSideRight  ? c == 0
                           : header->assignment >= FrameHeader::kLeftSide ? c == 1
                                                                          : false;
      if (!read_subframe(bits_, info_.bits + (is_side ? 1 : 0), channel(c, size))) return false;
    }
    bits_.skip_to_byte();
    const size_t end = bits_.byte_position();
    const auto checksum = static_cast<uint16_t>(bits_.take(16));
    if (bits_.is_past_end() || flac::crc16(bits_.bytes(begin, end)) != checksum) return false;
    separate_channels(header->assignment, size);
    const size_t before = all.size();
    all.resize(before + size);
    average(size, all.data() + before);
    position_ += header->block_size;
    return true;
  }

 private:
  std::span<int32_t> channel(int64_t c, size_t size) {
    return std::span(samples_).subspan(static_cast<size_t>(c) * size, size);
  }

  void separate_channels(int assignment, size_t size) {
    if (assignment < FrameHeader::kLeftSide) return;
    const std::span<int32_t> first = channel(0, size), second = channel(1, size);
    for (size_t i = 0; i < size; ++i) {
      const int64_t a = first[i], b = second[i];
      if (assignment == FrameHeader::kLeftSide) {
        second[i] = static_cast<int32_t>(a - b);
      } else if (assignment == FrameHeader::kSideRight) {
        first[i] = static_cast<int32_t>(a + b);
      } else {
        // The lowest bit that the middle lost equals that of the side.
        const int64_t sum = 2 * a + (b & 1);
        first[i] = static_cast<int32_t>((sum + b) >> 1);
        second[i] = static_cast<int32_t>((sum - b) >> 1);
      }
    }
  }

  void average(size_t size, float* to) {
    const float scale = 1.0f / static_cast<float>(int64_t{1} << (info_.bits - 1));
    if (info_.channels == 1) {
      const std::span<int32_t> from = channel(0, size);
      for (size_t i = 0; i < size; ++i) to[i] = scale * static_cast<float>(from[i]);
      return;
    }
    for (size_t i = 0; i < size; ++i) {
      float sum = 0.0f;
      for (int64_t c = 0; c < info_.channels; ++c)
        sum += scale * static_cast<float>(channel(c, size)[i]);
      to[i] = sum / static_cast<float>(info_.channels);
    }
  }

  BitReader bits_;
  FlacInfo info_;
  int64_t first_size_ = 0;
  int64_t position_ = 0;
  std::vector<int32_t> samples_;  // [channels, block size]
};

// Returns std::nullopt if the stream is not supported.
std::optional<FrameReader> open_frames(std::span<const std::byte> stream) {
  size_t first_frame = 0;
  const std::optional<FlacInfo> info = read_metadata(stream, first_frame);
  if (!info || !info->is_usual()) return std::nullopt;
  return FrameReader(stream.subspan(first_frame), *info);
}

// Reserves memory for the samples of a stream with `num_bytes`.
std::vector<float> make_room(int64_t num_samples, int64_t num_bytes) {
  // Speech has fewer. Memory beyond that is allocated only as frames are decoded, in case the
  // header is wrong.
  constexpr int64_t kUsualSamplesAByte = 16;
  std::vector<float> samples;
  samples.reserve(static_cast<size_t>(std::min(num_samples, kUsualSamplesAByte * num_bytes)));
  return samples;
}

}  // namespace

std::optional<FlacInfo> read_flac_info(std::span<const std::byte> beginning) {
  BitReader bits(beginning);
  if (std::ssize(beginning) < kFlacInfoBytes || bits.take(32) != kMarker) return std::nullopt;
  bits.take(1);  // whether other blocks follow
  const bool is_info = bits.take(7) == 0;
  if (bits.take(24) != kInfoSize || !is_info) return std::nullopt;
  return read_info_block(bits);
}

std::optional<std::vector<float>> decode_flac(std::span<const std::byte> stream, int64_t most) {
  std::optional<FrameReader> reader = open_frames(stream);
  if (!reader) return std::nullopt;
  const int64_t wanted = std::min(most, reader->info().samples);
  std::vector<float> samples = make_room(wanted, std::ssize(stream));
  while (reader->position() < wanted) {
    if (!reader->read_frame(samples)) return std::nullopt;
  }
  samples.resize(static_cast<size_t>(wanted));
  return samples;
}

std::optional<std::vector<float>> decode_flac_part(std::span<const std::byte> stream, int64_t first,
                                                   int64_t most) {
  std::optional<FrameReader> reader = open_frames(stream);
  if (!reader || first > reader->info().samples) return std::nullopt;
  const int64_t wanted = std::min(most, reader->info().samples - first);
  std::vector<float> samples = make_room(wanted, std::ssize(stream));
  while (reader->position() < first + wanted) {
    const int64_t begin = reader->position();
    if (!reader->read_frame(samples)) break;
    const int64_t unwanted = std::clamp<int64_t>(first - begin, 0, reader->position() - begin);
    samples.erase(samples.begin(), samples.begin() + unwanted);
  }
  if (reader->position() < first) return std::nullopt;
  samples.resize(std::min(samples.size(), static_cast<size_t>(wanted)));
  return samples;
}

}  // namespace sotto::data
