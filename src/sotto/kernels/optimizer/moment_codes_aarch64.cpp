#include "sotto/kernels/optimizer/moment_codes.h"

namespace sotto::kernels::detail {

void decode_signed(const uint8_t* codes, float scale, float* values) {
  for (int64_t i = 0; i < kMomentBlock; ++i) values[i] = kSignedMoments.values[codes[i]] * scale;
}

void decode_unsigned(const uint8_t* codes, float scale, float* values) {
  for (int64_t i = 0; i < kMomentBlock; ++i) values[i] = kUnsignedMoments.values[codes[i]] * scale;
}

void encode_signed(const float* values, float inverse, uint8_t* codes) {
  for (int64_t i = 0; i < kMomentBlock; ++i)
    codes[i] = signed_code(kSignedMoments.cells.data(), values[i] * inverse);
}

void encode_unsigned(const float* values, float inverse, uint8_t* codes) {
  for (int64_t i = 0; i < kMomentBlock; ++i)
    codes[i] = unsigned_code(kUnsignedMoments.cells.data(), values[i] * inverse);
}

}  // namespace sotto::kernels::detail
