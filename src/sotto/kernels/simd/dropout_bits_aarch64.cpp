#include <bit>
#include <cstring>

#include "sotto/kernels/simd/dropout_bits.h"

namespace sotto::kernels::detail {

void fill_dropout_bits(uint64_t first_block, uint64_t utterance, const PhiloxKey& key,
                       uint16_t* bits) {
  static_assert(std::endian::native == std::endian::little, "a word's lower half comes first");
  for (int64_t i = 0; i < kDropoutBlocksAtOnce; ++i) {
    const PhiloxCounter words =
        dropout_bits(first_block + static_cast<uint64_t>(i), utterance, key);
    std::memcpy(bits + i * kDropoutBlock, words.data(), sizeof(words));
  }
}

}  // namespace sotto::kernels::detail
