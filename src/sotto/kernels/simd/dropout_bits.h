// The random bits of a dropout mask, many blocks of dropout_mask.h at once: with the vectors'
// widening product on x86_64 (dropout_bits_x86_64.cpp), block by block elsewhere
// (dropout_bits_aarch64.cpp). Internal to the CPU version.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/dropout_mask.h"

namespace sotto::kernels::detail {

inline constexpr int64_t kDropoutBlocksAtOnce = 8;
inline constexpr int64_t kDropoutElementsAtOnce = kDropoutBlocksAtOnce * kDropoutBlock;

// bits[kDropoutElementsAtOnce]: the 16 bits of each element of the blocks from `first_block` on.
void fill_dropout_bits(uint64_t first_block, uint64_t utterance, const PhiloxKey& key,
                       uint16_t* bits);

}  // namespace sotto::kernels::detail
