// Conversion of blocks of 8-bit moments to numbers and back: eight at a time with vectors on x86_64
// (moment_codes_x86_64.cpp), one by one elsewhere (moment_codes_aarch64.cpp). Internal to the CPU
// version of AdamW.
#pragma once

#include <cstdint>

#include "sotto/kernels/optimizer/moment_map.h"

namespace sotto::kernels::detail {

// values[kMomentBlock] = scale times the decoded codes.
void decode_signed(const uint8_t* codes, float scale, float* values);
void decode_unsigned(const uint8_t* codes, float scale, float* values);

// codes[kMomentBlock] of inverse * values: signed_code() and unsigned_code() of each.
void encode_signed(const float* values, float inverse, uint8_t* codes);
void encode_unsigned(const float* values, float inverse, uint8_t* codes);

}  // namespace sotto::kernels::detail
